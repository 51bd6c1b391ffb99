-- Accuracy after the last step, in percent, higher is better: multiple choice between the true
-- answer and others. Behind ± half of the 95% interval over items and seeds. Below: what picking at random
-- and counting shared tokens give, and the number of items. The last columns compare the mean with
-- the baseline's on the same items and seeds: the difference in percentage points, and the
-- probability of one as large by chance, corrected (Holm) for all methods and tasks of the section.
-- The mean is over mean_tasks, in the paper's tables too: where some tasks stand for the paper's those
-- alone, and none that is chance by construction.
--
-- One section per formulation, metric and number of demonstrations, the formulation's own metric
-- first. The metric `overlap` looks at no model, only at tokens that context and candidate share, so
-- it is one more row below each section; `answer_only` (the candidates without their context) has
-- a section without bold: it should stay near chance. Errors are derived in method_accuracies.
-- significant: p_holm of accuracy_tests is below 0.05, over three seeds or more, and the method ahead.
-- above_chance: the cell's interval lies above it.
with named as (
    select a.*, m.position as method_position, k.task is not null as in_mean
    from method_accuracies as a
    join methods as m using (method)
    left join mean_tasks as k using (scenario, task)
),

answered as (
    select n.*, t.significant, t.against, t.difference, (t.high - t.low) / 2 as difference_half, t.p_holm, t.seeds as pairs,
        case when n.chance is not null then coalesce(n.value - n.half > n.chance, false) end as above_chance
    from named as n
    left join baseline_tests as t using (scenario, model, method, task, shots, formulation, metric)
    where n.metric <> 'overlap'
),

known as (
    select a.scenario, a.model, a.shots, a.formulation, a.metric, a.task, a.in_mean,
        max(a.chance) as chance, max(n.value) as overlap, max(a.examples) as items
    from answered as a
    left join (select * from named where metric = 'overlap') as n
        using (scenario, model, method, task, shots, formulation)
    where a.task <> 'mean'
    group by all
),

below as (
    select 0 as place, * exclude (in_mean) from known
    union all
    select 1, scenario, model, shots, formulation, metric, 'mean',
        mean_of_all(chance, chance), ordered_mean(overlap), null
    from known
    where in_mean
    group by all
),

cells as (
    select a.scenario, a.model, a.method, a.shots, a.formulation, a.metric, 'method' as kind,
        a.method_position as row_position, a.method as row_label, 0 as column_position,
        a.task as column_label, '%' as unit, a.value, a.half as error, 1 as decimals,
        if(c.task is null, 'higher', null) as better, c.task is null and a.significant as significant,
        a.above_chance, null as pairs
    from answered as a
    left join chance_tasks as c using (task)
    where a.task <> 'mean'
    union all
    select a.scenario, a.model, a.method, a.shots, a.formulation, a.metric, 'method',
        a.method_position, a.method, c.*
    from answered as a
    cross join lateral (values
        (1, 'mean', '%', a.value, a.half, 1, 'higher', a.significant, a.above_chance, null),
        (2, 'mean against ' || a.against, 'points', a.difference, a.difference_half, 1, 'higher',
            a.significant, null, a.pairs),
        (3, if(a.p_holm is null, null, 'p'), null, a.p_holm, null, 3, null, false, null, null),
        (4, 'seeds', null, a.seeds, null, 0, null, false, null, null)
    ) as c (place, label, unit, value, error, decimals, better, significant, above_chance, pairs)
    where a.task = 'mean' and c.label is not null
    union all by name
    select b.scenario, b.model, b.shots, b.formulation, b.metric, 'reference' as kind, c.*,
        b.place as column_position, b.task as column_label, '%' as unit, false as significant
    from below as b
    cross join lateral (values
        (5000, 'chance', b.chance, 1),
        (5001, 'token overlap', b.overlap, 1),
        (5002, 'items', b.items, 0)
    ) as c (row_position, row_label, value, decimals)
    where c.value is not null
)

select
    c.scenario,
    c.model,
    c.method,
    c.shots,
    c.formulation,
    c.metric,
    c.scenario || ' / ' || c.model || ' / formulation ' || c.formulation || ', normalisation '
        || c.metric || ', ' || c.shots || '-shot' as section,
    c.* exclude (scenario, model, method, shots, formulation, metric) replace (
        if(c.metric = 'answer_only', null, c.better) as better,
        coalesce(c.significant, false) as significant
    ),
    o.method is not null as other_sign
from cells as c
join scenarios as s using (scenario)
left join unstable_signs as o
    on c.unit = '%' and (c.scenario, c.model, c.method, c.column_label) = (o.scenario, o.model, o.method, o.task)
    and (c.shots, c.formulation, c.metric) = (o.shots, o.formulation, o.metric)
order by
    s.position, c.model, c.formulation, c.metric <> c.formulation, c.metric = 'answer_only',
    c.metric, c.shots, c.row_position, c.row_label,
    c.column_position, c.column_label
