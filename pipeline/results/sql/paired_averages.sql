-- paired_domains averaged over the domains of each run, by the scenario's target where it has one. A text that stands
-- in several domains is one document: what it adds to their differences is summed before it is squared.
-- No row where a domain of the run has no documents in common with the baseline's run.
--
-- degrees: Satterthwaite's over the domains, times the share of their documents that is not counted twice. effective:
-- that of the domain with the fewest.
with expected as (
    select run, count(*) as domains from validation where final group by run
),

complete as (
    select
        p.*,
        p.target / sum(p.target order by p.domain) over pair as part,
        bool_and(p.nll_stderr is not null) over pair as erring
    from paired_domains as p
    join expected as e using (run)
    window pair as (partition by p.run, p.against)
    qualify count(*) over pair = e.domains
),

by_document as (
    select c.run, c.against, d.document, sum(c.part * d.of_nll order by c.domain) as of_nll,
        sum(c.part * d.of_perplexity order by c.domain) as of_perplexity,
        sum(c.part * d.share order by c.domain) ^ 2 as joint, sum((c.part * d.share) ^ 2 order by c.domain) as alone,
        sum((c.part * d.share) ^ 4 order by c.domain) as alone_squared
    from complete as c
    join paired_documents as d using (run, against, domain)
    group by c.run, c.against, d.document
),

errors as (
    select run, against, sqrt(sum(of_nll ^ 2 order by document)) as nll_stderr,
        sqrt(sum(of_perplexity ^ 2 order by document)) as perplexity_stderr,
        least(1, sum(joint order by document) ^ 2 / sum(joint ^ 2 order by document)
            / (sum(alone order by document) ^ 2 / sum(alone_squared order by document))) as distinct_share
    from by_document
    group by run, against
)

select
    c.run,
    c.scenario,
    c.model,
    c.method,
    c.seed,
    c.against,
    sum(c.part * c.nll_difference order by c.domain) as nll_difference,
    case when any_value(c.erring) then any_value(e.nll_stderr) end as nll_stderr,
    sum(c.part * c.perplexity_difference order by c.domain) as perplexity_difference,
    case when any_value(c.erring) then any_value(e.perplexity_stderr) end as perplexity_stderr,
    min(c.effective) as effective,
    greatest(1, any_value(e.distinct_share) * coalesce(
        sum((c.part * c.nll_stderr) ^ 2 order by c.domain) ^ 2
            / nullif(sum((c.part * c.nll_stderr) ^ 4 / c.degrees order by c.domain), 0),
        sum(c.degrees order by c.domain)
    )) as degrees
from complete as c
join errors as e using (run, against)
group by c.run, c.scenario, c.model, c.method, c.seed, c.against
order by c.run, c.against
