-- Mean perplexities of two methods, the paper's and ours, by the paper's names: by how many percent of the
-- other's (`against`) the method's is lower, 100 (1 - a / b).
--
-- low and high: of the paper what its rounding leaves open (it gives no errors), of ours the 95%
-- interval, paired by document and seed where one of the two is the baseline (method_differences), and
-- then all is over the seeds that both have; else from the errors of both, as if they were
-- independent, which is too wide.
with means as (
    select distinct scenario, model, params, method, value, low, high
    from printed
    where metric = 'perplexity' and task = 'average' and method not like 'single-%'
),

theirs as (
    select
        'paper' as side,
        a.scenario,
        a.model,
        null::integer as shots,
        a.method,
        b.method as against,
        a.scenario || ', ' || a.params || ': ' || a.method || ' under ' || b.method as cell,
        100 * (1 - a.value / b.value) as value,
        100 * (1 - a.high / b.low) as low,
        100 * (1 - a.low / b.high) as high,
        null::double as stderr,
        null::double as p,
        null::bigint as seeds,
        null::text as our_scenario
    from means as a
    join means as b
        on a.scenario = b.scenario and a.model = b.model and a.params = b.params
        and a.method <> b.method
),

scores as (
    select * from played_scores where metric = 'perplexity' and task = 'average' and not single
),

shared as (
    select a.scenario, a.model, a.method, b.method as against,
        avg(b.perplexity order by b.seed) as value
    from validation_averages as a
    join validation_averages as b
        on a.scenario = b.scenario and a.model = b.model and a.seed = b.seed
        and a.method <> b.method
    where a.final and b.final
    group by all
),

ours as (
    select
        'ours' as side,
        a.published_scenario as scenario,
        a.published_model as model,
        null::integer as shots,
        a.published_method as method,
        b.published_method as against,
        a.scenario || ' / ' || a.model || ': ' || a.method || ' under ' || b.method as cell,
        100 / o.value * coalesce(
            -d.perplexity_difference, r.perplexity_difference, b.value - a.value
        ) as value,
        100 / o.value * coalesce(
            -d.perplexity_high, r.perplexity_low,
            b.value - a.value - 1.96 * sqrt(a.error ^ 2 + b.error ^ 2)
        ) as low,
        100 / o.value * coalesce(
            -d.perplexity_low, r.perplexity_high,
            b.value - a.value + 1.96 * sqrt(a.error ^ 2 + b.error ^ 2)
        ) as high,
        100 / o.value * coalesce(
            d.perplexity_stderr, r.perplexity_stderr, sqrt(a.error ^ 2 + b.error ^ 2)
        ) as stderr,
        null::double as p,
        coalesce(d.seeds, r.seeds, least(a.seeds, b.seeds)) as seeds,
        a.scenario as our_scenario
    from scores as a
    join scores as b
        on a.scenario = b.scenario and a.model = b.model and a.method <> b.method
        and a.published_scenario = b.published_scenario
        and a.published_model = b.published_model
    left join method_differences as d
        on a.scenario = d.scenario and a.model = d.model and a.method = d.method
        and b.method = d.against
    left join method_differences as r
        on b.scenario = r.scenario and b.model = r.model and b.method = r.method
        and a.method = r.against
    left join shared as t
        on coalesce(d.seeds, r.seeds) is not null and a.scenario = t.scenario
        and a.model = t.model and a.method = t.method and b.method = t.against
    cross join lateral (select coalesce(t.value, b.value) as value) as o
)

select 'perplexity' as quantity, * from theirs
union all
select 'perplexity', * from ours
order by side, scenario, model, method, against, cell
