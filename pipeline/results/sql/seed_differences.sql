-- paired_domains and, where domain is null, paired_averages over seeds: every method against the others
-- that these have (`against` says which).
--
-- seed_sd is the standard deviation of the seeds' differences, document_stderr the root mean square of their errors,
-- all seeds read the same documents:  stderr^2 = seed_sd^2 / seeds + document_stderr^2.
-- The 95% interval adds the two parts with their own quantiles of Student's t, of the seeds and of the documents:
--     half^2 = (t(seeds - 1) * seed_sd)^2 / seeds + (t(degrees) * document_stderr)^2.
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
        min(effective) as effective,
        avg(degrees order by seed) as degrees,
        avg(columns('^(nll|perplexity)_difference$') order by seed),
        stddev_samp(columns('^(nll|perplexity)_difference$') order by seed) as '\1_seed_sd',
        sqrt(avg(columns('^(nll|perplexity)_stderr$') ^ 2 order by seed)) as '\1_document_stderr'
    from paired
    group by all
)

select
    *,
    both_errors(nll_seed_sd, seeds, nll_document_stderr) as nll_stderr,
    both_errors(perplexity_seed_sd, seeds, perplexity_document_stderr) as perplexity_stderr,
    half_width_of(nll_seed_sd, seeds, nll_document_stderr, degrees) as nll_half,
    half_width_of(perplexity_seed_sd, seeds, perplexity_document_stderr, degrees) as perplexity_half,
    nll_difference - nll_half as nll_low,
    nll_difference + nll_half as nll_high,
    perplexity_difference - perplexity_half as perplexity_low,
    perplexity_difference + perplexity_half as perplexity_high
from summed
order by scenario, model, method, against, domain_position, domain
