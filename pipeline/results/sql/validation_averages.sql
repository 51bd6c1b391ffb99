-- Both averages over the K domains, for every run and evaluated step.
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
        avg(nll order by domain) as nll,
        mean_error(nll_stderr, domain) as nll_stderr,
        avg(perplexity order by domain) as perplexity,
        mean_error(perplexity_stderr, domain) as perplexity_stderr,
        avg(bits_per_byte order by domain) as bits_per_byte,
        mean_error(bits_per_byte_stderr, domain) as bits_per_byte_stderr
    from validation
    group by all
)

select
    *,
    exp(nll) as perplexity_of_mean,
    exp(nll) * nll_stderr as perplexity_of_mean_stderr
from averaged
order by run, step
