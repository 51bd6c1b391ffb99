-- Both averages over the K domains, for every run and evaluated step. A scenario with a target weighs them.
--
-- perplexity: the arithmetic mean of the domains' perplexities, as the paper averages; one domain
-- with a high perplexity rules it. perplexity_of_mean: exp of the mean loss, the geometric mean.
-- The two can rank methods differently. Domains have no document in common, so
--     SE(mean of x_k) = sqrt(sum_k SE(x_k)^2) / K,   SE(exp(m)) = exp(m) * SE(m).
-- A domain without an error leaves the average without one. Sums go through the domains by name,
-- since their last bit depends on the order.
with averaged as (
    select
        run,
        scenario,
        model,
        method,
        seed,
        step,
        trained_tokens,
        final,
        count(*) as domains,
        weighted_mean(nll, target, domain) as nll,
        weighted_error(nll_stderr, target, domain) as nll_stderr,
        weighted_mean(perplexity, target, domain) as perplexity,
        weighted_error(perplexity_stderr, target, domain) as perplexity_stderr,
        weighted_mean(bits_per_byte, target, domain) as bits_per_byte,
        weighted_error(bits_per_byte_stderr, target, domain) as bits_per_byte_stderr
    from validation
    group by all
)

select
    *,
    exp(nll) as perplexity_of_mean,
    exp(nll) * nll_stderr as perplexity_of_mean_stderr
from averaged
order by run, step
