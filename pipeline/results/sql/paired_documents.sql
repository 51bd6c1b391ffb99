-- What each validation document adds to the final difference between two runs of one seed, and to its error: the run
-- less that of the baseline, of the oracle where the experiment has one, and of any other method that a claim
-- compares it with; `against` says which. A document is a text: its name is a hash of it, in every domain.
--
-- Both runs read the same documents, and a hard document is hard for both. With a_d and b_d the two summed losses
-- of document d, t_d its tokens, T = sum t_d and h_d = t_d / T, the difference is sum_d (a_d - b_d) / T, and
--     of_nll = (a_d - b_d - t_d * difference) / T / sqrt(1 - 2 h_d + sum h^2):
-- the squares' sum is the variance of the difference without bias (CR2 of Bell and McCaffrey 2002) where a document's
-- own difference does not depend on its length. of_perplexity: the same by the delta method, A = exp(sum a / T) and
-- B likewise putting A (a_d - t_d ln A) - B (b_d - t_d ln B) in place of the bracket. Null for one document alone.
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
    select p.run, p.baseline_run, p.against, a.domain, a.document, a.tokens, a.nll, b.nll as baseline_nll
    from run_pairs as p
    join sums as a using (run)
    join sums as b
        on p.baseline_run = b.run and a.domain = b.domain and a.document = b.document
        and a.tokens = b.tokens
),

means as (
    select
        run,
        against,
        domain,
        sum(tokens) as tokens,
        sum(nll order by document) / sum(tokens) as mean,
        sum(baseline_nll order by document) / sum(tokens) as baseline_mean,
        sum(tokens ^ 2) / sum(tokens) ^ 2 as concentration
    from matched
    group by all
)

select
    m.run,
    m.baseline_run,
    m.against,
    m.domain,
    m.document,
    m.tokens,
    m.tokens / s.tokens as share,
    s.mean,
    s.baseline_mean,
    s.concentration,
    sqrt(nullif(1 - 2 * share + s.concentration, 0)) * s.tokens as divisor,
    (m.nll - m.baseline_nll - m.tokens * (s.mean - s.baseline_mean)) / divisor as of_nll,
    (
        exp(s.mean) * (m.nll - m.tokens * s.mean)
        - exp(s.baseline_mean) * (m.baseline_nll - m.tokens * s.baseline_mean)
    ) / divisor as of_perplexity
from matched as m
join means as s using (run, against, domain)
order by m.run, m.against, m.domain, m.document
