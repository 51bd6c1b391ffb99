-- Final validation loss of every method by domain and, where domain is null, averaged over domains: means
-- over seeds.
--
-- seed_sd is the sample standard deviation over seeds (none for one seed). document_stderr is the
-- root mean square of the seeds' errors: all seeds read the same documents, so more seeds do not
-- lower it. Both together:  SE^2 = seed_sd^2 / seeds + document_stderr^2; half of the 95% interval
-- has each part times its own quantile.
with finals as (
    select * from validation where final
    union all by name
    select * from validation_averages where final
),

summed as (
    select
        scenario,
        model,
        method,
        domain,
        domain_position,
        count(*) as seeds,
        avg(columns('^(nll|perplexity|perplexity_of_mean|bits_per_byte)$') order by seed),
        stddev_samp(columns('^(nll|perplexity|perplexity_of_mean|bits_per_byte)$') order by seed) as '\1_seed_sd',
        sqrt(avg(columns('^(.*)_stderr$') ^ 2 order by seed)) as '\1_document_stderr'
    from finals
    group by scenario, model, method, domain, domain_position
)

select
    *,
    both_errors(nll_seed_sd, seeds, nll_document_stderr) as nll_stderr,
    both_errors(perplexity_seed_sd, seeds, perplexity_document_stderr) as perplexity_stderr,
    both_errors(perplexity_of_mean_seed_sd, seeds, perplexity_of_mean_document_stderr)
        as perplexity_of_mean_stderr,
    half_width(perplexity_seed_sd, seeds, perplexity_document_stderr) as perplexity_half,
    half_width(perplexity_of_mean_seed_sd, seeds, perplexity_of_mean_document_stderr) as perplexity_of_mean_half,
    both_errors(bits_per_byte_seed_sd, seeds, bits_per_byte_document_stderr) as bits_per_byte_stderr
from summed
order by scenario, model, method, domain_position, domain
