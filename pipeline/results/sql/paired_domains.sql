-- Final loss of every run minus that of another of the same seed, by domain, with the error from the choice of
-- documents (paired_documents says of what, and how).
--
-- effective: 1 / sum h^2, the documents of equal length that would tell as much. degrees: those of Student's t by
-- Satterthwaite for the error, squares of residuals r with the weights g = h^2 / (1 - 2 h + H), H = sum h^2:
--     H^2 / sum_de g_d g_e C_de^2,   C_de = (d = e) - h_d - h_e + H;   D documents of one length: D - 1.
with weighed as (
    select *, share ^ 2 / (1 - 2 * share + concentration) as g
    from paired_documents
    where divisor is not null
),

moments as (
    select
        run,
        against,
        domain,
        any_value(concentration) as concentration,
        sum(g order by document) as g,
        sum(g * share order by document) as gh,
        sum(g * share ^ 2 order by document) as ghh,
        sum((g * (concentration - 2 * share)) ^ 2 order by document) as own,
        sum(share ^ 4 order by document) as fourth
    from weighed
    group by run, against, domain
),

degrees as (
    select run, against, domain, concentration ^ 2 / (
        concentration ^ 2 * g ^ 2 + 2 * g * ghh - 4 * concentration * g * gh + 2 * gh ^ 2 - own + fourth
    ) as degrees
    from moments
)

select
    r.run,
    r.scenario,
    r.model,
    r.method,
    r.seed,
    p.against,
    p.baseline_run,
    p.domain,
    coalesce(any_value(d.position), 1000) as domain_position,
    coalesce(any_value(d.target), 1) as target,
    count(*) as documents,
    sum(p.tokens) as tokens,
    1 / any_value(p.concentration) as effective,
    greatest(1, any_value(g.degrees)) as degrees,
    any_value(p.mean) - any_value(p.baseline_mean) as nll_difference,
    sqrt(sum(p.of_nll ^ 2 order by p.document)) as nll_stderr,
    exp(any_value(p.mean)) - exp(any_value(p.baseline_mean)) as perplexity_difference,
    sqrt(sum(p.of_perplexity ^ 2 order by p.document)) as perplexity_stderr
from paired_documents as p
join runs as r using (run)
left join degrees as g using (run, against, domain)
left join domains as d on r.scenario = d.scenario and p.domain = d.domain
group by r.run, r.scenario, r.model, r.method, r.seed, p.against, p.baseline_run, p.domain
order by r.run, p.against, domain_position, p.domain
