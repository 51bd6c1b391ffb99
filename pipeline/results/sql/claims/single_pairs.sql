-- Mix over all domains beside training on one of them (`against`), the paper's and ours, by its names: by how
-- many percent of the other's mean accuracy that of Mix is higher, 100 (a / b - 1), 7-shot. Errors as if
-- the runs were independent, which is too wide where they share items.
with means as (
    select distinct scenario, model, params, method, shots, value, low, high, stderr
    from printed
    where metric = 'accuracy' and task = 'average' and shots = 7 and "table" = 'table14'
),

asked as (
    select distinct scenario, published_scenario, shots
    from paper_columns
    where metric = 'accuracy' and task = 'average' and printed_shots = 7
),

scores as (
    select s.*
    from played_scores as s
    join asked as q
        on s.scenario = q.scenario and s.published_scenario = q.published_scenario
        and s.shots = q.shots
    where s.metric = 'accuracy' and s.task = 'average'
)

select
    'single' as quantity,
    'paper' as side,
    a.scenario,
    a.model,
    a.shots,
    a.method,
    b.method as against,
    a.params || ': mix over ' || b.method as cell,
    100 * (a.value / b.value - 1) as value,
    100 * (a.low / b.high - 1) as low,
    100 * (a.high / b.low - 1) as high,
    100 * sqrt(a.stderr ^ 2 + b.stderr ^ 2) / b.value as stderr,
    null::double as p,
    null::bigint as seeds,
    null::text as our_scenario
from means as a
join means as b on a.model = b.model and a.shots = b.shots
where a.scenario = 'glam' and a.method = 'mix' and b.method like 'single-%'
union all
select
    'single',
    'ours',
    a.published_scenario,
    a.published_model,
    7,
    a.published_method,
    b.published_method,
    a.scenario || ' / ' || a.model || ': ' || a.method || ' over ' || b.method,
    100 * (a.value / b.value - 1),
    100 * (a.value - b.value - 1.96 * sqrt(a.error ^ 2 + b.error ^ 2)) / b.value,
    100 * (a.value - b.value + 1.96 * sqrt(a.error ^ 2 + b.error ^ 2)) / b.value,
    100 * sqrt(a.error ^ 2 + b.error ^ 2) / b.value,
    null,
    least(a.seeds, b.seeds),
    a.scenario
from scores as a
join scores as b
    on a.model = b.model and a.published_model = b.published_model and a.shots = b.shots
where a.published_scenario = 'glam' and a.published_method = 'mix'
    and b.published_scenario like 'glam-%' and b.published_method like 'single-%'
order by side, cell
