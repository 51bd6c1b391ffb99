-- What printed_pairs has of the paper, of ours: means over the seeds that both methods have, with the error
-- over seeds (seed_stderr) and that over documents or items, which all seeds share (item_stderr); low and
-- high: the 95% interval of both. Accuracies are those of accuracy_tests, asked with as many
-- demonstrations as the paper's, or with the number that stands in for it (paper_columns).
with headline as (
    select distinct shots, formulation, metric from headline_accuracies
),

asked as (
    select distinct scenario, published_scenario, printed_shots, shots
    from paper_columns
    where metric = 'accuracy' and task = 'average' and shots is not null
),

accuracies as (
    select
        'accuracy' as quantity,
        a.published_scenario as scenario,
        a.published_model as model,
        q.printed_shots as shots,
        a.published_method as method,
        b.published_method as against,
        t.scenario || ' / ' || t.model || ', ' || t.shots || '-shot: ' || t.method || ' over '
            || t.against as cell,
        100 * t.difference / t.other as value,
        100 * t.low / t.other as low,
        100 * t.high / t.other as high,
        100 * t.seed_stderr / t.other as seed_stderr,
        100 * t.item_stderr / t.other as item_stderr,
        t.seeds,
        t.degrees,
        t.effective,
        t.scenario as our_scenario
    from accuracy_tests as t
    join headline as h using (shots, formulation, metric)
    join played_parts as a using (scenario, model, method)
    join played_parts as b
        on t.scenario = b.scenario and t.model = b.model and t.against = b.method
        and a.published_model = b.published_model
        and (a.published_scenario = b.published_scenario or b.single and not a.single)
    join asked as q
        on t.scenario = q.scenario and a.published_scenario = q.published_scenario
        and t.shots = q.shots
    where t.task = 'mean'
),

of_losses as (
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
),

losses as (
    select
        t.quantity,
        a.published_scenario as scenario,
        a.published_model as model,
        a.published_method as method,
        b.published_method as against,
        t.scenario || ' / ' || t.model || ': ' || t.method || ' under ' || t.against as cell,
        t.* exclude (quantity, scenario, model, method, against),
        t.scenario as our_scenario
    from of_losses as t
    join claimed_pairs as c using (scenario, model, method, against, quantity)
    join played_parts as a using (scenario, model, method)
    join played_parts as b
        on t.scenario = b.scenario and t.model = b.model and t.against = b.method
        and a.published_scenario = b.published_scenario and a.published_model = b.published_model
),

summed as (
    select * exclude (seed, value), avg(value order by seed) as value, count(*) as seeds,
        stddev_samp(value order by seed) / sqrt(seeds) as seed_stderr
    from seed_pairs
    group by all
)

select 'ours' as side, *, both_errors(seed_stderr, 1, item_stderr) as stderr
from (
    select * from accuracies
    union all by name select * from losses
)
union all by name
select 'ours' as side, *, value - t95(seeds - 1) * seed_stderr as low,
    value + t95(seeds - 1) * seed_stderr as high, seed_stderr as stderr
from summed
order by quantity, cell, scenario, method, against
