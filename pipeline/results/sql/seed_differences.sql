-- paired_domains and, where domain is null, paired_averages over seeds: every method against the others
-- that these have (`against` says which).
--
-- seed_sd is the standard deviation of the seeds' differences, document_stderr the root mean square
-- of their errors:  stderr^2 = seed_sd^2 / seeds + document_stderr^2.
-- The 95% interval adds the two parts with their own quantiles, Student's t for the seeds:
--     half^2 = (t(seeds - 1) * seed_sd)^2 / seeds + (1.96 * document_stderr)^2.
-- With one seed only the documents count and the interval says nothing about other seeds.
with paired as (
    select * from paired_domains
    union all by name
    select * from paired_averages
),

summed as (
    select
        scenario,
        model,
        method,
        against,
        domain,
        domain_position,
        count(*) as seeds,
        count(*) filter (nll_difference < 0) as seeds_better,
        avg(columns('^(nll|perplexity)_difference$')),
        stddev_samp(columns('^(nll|perplexity)_difference$')) as '\1_seed_sd',
        sqrt(avg(columns('^(nll|perplexity)_stderr$') ^ 2)) as '\1_document_stderr'
    from paired
    group by all
)

select
    *,
    both_errors(nll_seed_sd, seeds, nll_document_stderr) as nll_stderr,
    both_errors(perplexity_seed_sd, seeds, perplexity_document_stderr) as perplexity_stderr,
    nll_difference - half_width(nll_seed_sd, seeds, nll_document_stderr) as nll_low,
    nll_difference + half_width(nll_seed_sd, seeds, nll_document_stderr) as nll_high,
    perplexity_difference - half_width(perplexity_seed_sd, seeds, perplexity_document_stderr)
        as perplexity_low,
    perplexity_difference + half_width(perplexity_seed_sd, seeds, perplexity_document_stderr)
        as perplexity_high
from summed
order by scenario, model, method, against, domain_position, domain
