-- Final validation loss of every method and domain: means over seeds.
--
-- seed_sd is the sample standard deviation over seeds (none for one seed). document_stderr is the
-- root mean square of the seeds' errors: all seeds read the same documents, so more seeds do not
-- lower it. Both together:  SE^2 = seed_sd^2 / seeds + document_stderr^2.
with summed as (
    select
        scenario,
        model,
        method,
        domain,
        domain_position,
        count(*) as seeds,
        avg(nll) as nll,
        stddev_samp(nll) as nll_seed_sd,
        sqrt(avg(nll_stderr * nll_stderr)) as nll_document_stderr,
        avg(perplexity) as perplexity,
        stddev_samp(perplexity) as perplexity_seed_sd,
        sqrt(avg(perplexity_stderr * perplexity_stderr)) as perplexity_document_stderr,
        avg(bits_per_byte) as bits_per_byte,
        stddev_samp(bits_per_byte) as bits_per_byte_seed_sd,
        sqrt(avg(bits_per_byte_stderr * bits_per_byte_stderr)) as bits_per_byte_document_stderr
    from validation
    where final
    group by all
)

select
    *,
    both_errors(nll_seed_sd, seeds, nll_document_stderr) as nll_stderr,
    both_errors(perplexity_seed_sd, seeds, perplexity_document_stderr) as perplexity_stderr,
    both_errors(bits_per_byte_seed_sd, seeds, bits_per_byte_document_stderr) as bits_per_byte_stderr
from summed
order by scenario, model, method, domain_position, domain
