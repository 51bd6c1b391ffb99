-- paired_domains averaged over the K domains of each run:  SE = sqrt(sum_k SE_k^2) / K; where the scenario
-- has a target u,  SE = sqrt(sum_k (u_k SE_k)^2) / sum_k u_k.
-- No row where a domain of the run has no documents in common with the baseline's run.
with expected as (
    select run, count(*) as domains from validation where final group by run
)

select
    p.run,
    p.scenario,
    p.model,
    p.method,
    p.seed,
    p.against,
    weighted_mean(p.nll_difference, p.target, p.domain) as nll_difference,
    weighted_error(p.nll_stderr, p.target, p.domain) as nll_stderr,
    weighted_mean(p.perplexity_difference, p.target, p.domain) as perplexity_difference,
    weighted_error(p.perplexity_stderr, p.target, p.domain) as perplexity_stderr
from paired_domains as p
join expected as e using (run)
group by p.run, p.scenario, p.model, p.method, p.seed, p.against, e.domains
having count(*) = e.domains
order by p.run, p.against
