-- What printed_pairs has of the paper, of ours: means over the seeds that both methods have, with the error
-- over seeds (seed_stderr) and that over documents or items, which all seeds share (item_stderr); low and
-- high: the 95% interval of both. Accuracies are those of accuracy_tests, asked with as many
-- demonstrations as the paper's, or with the number that stands in for it (score_table_columns).
with asked as (
    select distinct scenario, published_scenario, printed_shots, shots
    from score_table_columns
    where metric = 'accuracy' and task = 'average' and shots is not null
),

measured as (
    select 'accuracy' as quantity, scenario, model, method, against, shots, 100 * difference / other as value,
        100 * low / other as low, 100 * high / other as high, 100 * seed_stderr / other as seed_stderr,
        100 * item_stderr / other as item_stderr, seeds, degrees, effective
    from accuracy_tests
    semi join headline_accuracies using (shots, formulation, metric)
    where task = 'mean'
    union all by name
    select d.scenario, d.model, d.method, d.against, c.*, d.seeds, d.effective
    from method_differences as d
    cross join lateral (values
        ('perplexity', -100 * d.perplexity_difference / d.other_perplexity,
            -100 * d.perplexity_high / d.other_perplexity,
            -100 * d.perplexity_low / d.other_perplexity,
            100 * d.perplexity_seed_sd / sqrt(d.seeds) / d.other_perplexity,
            100 * d.perplexity_document_stderr / d.other_perplexity, d.perplexity_degrees),
        ('spread', -d.spread_difference, -d.spread_high, -d.spread_low,
            d.spread_seed_sd / sqrt(d.seeds), d.spread_document_stderr, d.spread_degrees)
    ) as c (quantity, value, low, high, seed_stderr, item_stderr, degrees)
    where (c.quantity, d.scenario, d.model, d.method, d.against) in (
        select (quantity, scenario, model, method, against) from claimed_pairs
    )
),

summed as (
    select * exclude (seed, value), avg(value order by seed) as value, count(*) as seeds,
        stddev_samp(value order by seed) / sqrt(seeds) as seed_stderr
    from seed_pairs
    group by all
)

select 'ours' as side, m.quantity, p.published_scenario as scenario, p.published_model as model,
    q.printed_shots as shots, p.published_method as method, p.published_against as against,
    m.scenario || ' / ' || m.model || coalesce(', ' || m.shots || '-shot', '') || ': ' || m.method
        || if(m.quantity = 'accuracy', ' over ', ' under ') || m.against as cell,
    m.* exclude (quantity, scenario, model, method, against, shots), m.scenario as our_scenario,
    both_errors(m.seed_stderr, 1, m.item_stderr) as stderr
from measured as m
join played_pairs as p using (scenario, model, method, against)
left join asked as q using (scenario, published_scenario, shots)
-- Accuracies are compared with runs on one domain (`alone`), too, and only with as many demonstrations as a column
-- of the paper; all else within one of its scenarios.
where if(m.quantity = 'accuracy', q.shots is not null and (p.alike or p.alone), p.alike)
union all by name
select 'ours' as side, *, value - t95(seeds - 1) * seed_stderr as low,
    value + t95(seeds - 1) * seed_stderr as high, seed_stderr as stderr
from summed
order by quantity, cell, scenario, method, against, shots
