-- Final averages over domains of every method: means over seeds, errors as in method_domains.
with summed as (
    select
        scenario,
        model,
        method,
        count(*) as seeds,
        avg(nll) as nll,
        stddev_samp(nll) as nll_seed_sd,
        sqrt(avg(nll_stderr ^ 2)) as nll_document_stderr,
        avg(perplexity) as perplexity,
        stddev_samp(perplexity) as perplexity_seed_sd,
        sqrt(avg(perplexity_stderr ^ 2)) as perplexity_document_stderr,
        avg(perplexity_of_mean) as perplexity_of_mean,
        stddev_samp(perplexity_of_mean) as perplexity_of_mean_seed_sd,
        sqrt(avg(perplexity_of_mean_stderr ^ 2)) as perplexity_of_mean_document_stderr,
        avg(bits_per_byte) as bits_per_byte,
        stddev_samp(bits_per_byte) as bits_per_byte_seed_sd,
        sqrt(avg(bits_per_byte_stderr ^ 2)) as bits_per_byte_document_stderr
    from validation_averages
    where final
    group by all
)

select
    *,
    both_errors(nll_seed_sd, seeds, nll_document_stderr) as nll_stderr,
    both_errors(perplexity_seed_sd, seeds, perplexity_document_stderr) as perplexity_stderr,
    both_errors(perplexity_of_mean_seed_sd, seeds, perplexity_of_mean_document_stderr) as perplexity_of_mean_stderr,
    both_errors(bits_per_byte_seed_sd, seeds, bits_per_byte_document_stderr) as bits_per_byte_stderr
from summed
order by scenario, model, method
