-- Final loss of every run minus that of the run of the same seed of the baseline, of the oracle where the
-- experiment has one, and of any other method that a claim compares it with, by domain; `against` says which.
--
-- Both runs read the same validation documents, and a hard document is hard for both: the error of
-- the difference, taken document by document, is several times smaller than the runs' own errors.
-- With a_d and b_d the two summed losses of document d, t_d its tokens, T = sum t_d and D documents,
--     difference = sum_d (a_d - b_d) / T,
--     SE^2 = D / (D - 1) * sum_d (a_d - b_d - t_d * difference)^2 / T^2,
-- the error of a ratio clustered by document. For perplexities A = exp(sum a / T), B likewise, the
-- delta method puts A (a_d - t_d ln A) - B (b_d - t_d ln B) in place of the bracket.
-- One document gives no error.
with final as (
    select run, max(step) as step from documents group by run
),

sums as (
    select d.run, d.domain, d.document, d.nll, d.tokens
    from documents as d
    join final as f using (run, step)
),

run_pairs as (
    select a.run, b.run as baseline_run, b.method as against
    from runs as a
    join runs as b using (scenario, model, seed)
    cross join experiment as e
    where a.run <> b.run and (
        b.method in (e.baseline, e.oracle)
        or (a.scenario, a.model, a.method, b.method) in (
            select (scenario, model, method, against)
            from claimed_pairs
            where quantity = 'perplexity'
        )
    )
),

matched as (
    select p.run, p.baseline_run, p.against, a.domain, a.tokens, a.nll, b.nll as baseline_nll
    from run_pairs as p
    join sums as a using (run)
    join sums as b
        on p.baseline_run = b.run and a.domain = b.domain and a.document = b.document
        and a.tokens = b.tokens
),

means as (
    select
        run,
        baseline_run,
        against,
        domain,
        count(*) as documents,
        sum(tokens) as tokens,
        sum(nll) / sum(tokens) as mean,
        sum(baseline_nll) / sum(tokens) as baseline_mean
    from matched
    group by all
),

spread as (
    select
        m.run,
        m.against,
        m.domain,
        sum((m.nll - m.baseline_nll - m.tokens * (s.mean - s.baseline_mean)) ^ 2) as of_nll,
        sum((
            exp(s.mean) * (m.nll - m.tokens * s.mean)
            - exp(s.baseline_mean) * (m.baseline_nll - m.tokens * s.baseline_mean)
        ) ^ 2) as of_perplexity
    from matched as m
    join means as s using (run, against, domain)
    group by all
)

select
    r.run,
    r.scenario,
    r.model,
    r.method,
    r.seed,
    m.against,
    m.baseline_run,
    m.domain,
    coalesce(d.position, 1000) as domain_position,
    coalesce(d.target, 1) as target,
    m.documents,
    m.tokens,
    m.mean - m.baseline_mean as nll_difference,
    sqrt(m.documents / nullif(m.documents - 1, 0) * s.of_nll) / m.tokens as nll_stderr,
    exp(m.mean) - exp(m.baseline_mean) as perplexity_difference,
    sqrt(m.documents / nullif(m.documents - 1, 0) * s.of_perplexity) / m.tokens
        as perplexity_stderr
from means as m
join spread as s using (run, against, domain)
join runs as r using (run)
left join domains as d using (scenario, domain)
order by r.run, m.against, domain_position, m.domain
