-- Accuracy after the last step, in percent, higher is better: multiple choice between the true
-- continuation of a held-out text and others. Behind ± one standard error over items and seeds.
-- Below: what picking at random and counting shared tokens give, and the number of items.
--
-- One section per formulation, metric and number of demonstrations, the formulation's own metric
-- first. The metric `overlap` looks at no model, only at tokens that context and candidate share, so
-- it is one more row below each section; `answer_only` (the candidates without their context) has
-- a section without bold: it should stay near chance. Errors are derived in method_accuracies.
with named as (
    select a.*, m.position as method_position
    from method_accuracies as a
    join methods as m on a.method = m.method
),

tasks as (select * from named where metric <> 'overlap'),

counted as (
    select t.scenario, t.model, t.shots, t.formulation, t.metric, t.task, max(n.value) as value
    from tasks as t
    join named as n
        on t.scenario = n.scenario and t.model = n.model and t.method = n.method
        and t.task = n.task and t.shots = n.shots and t.formulation = n.formulation
    where n.metric = 'overlap'
    group by all
),

averaged as (
    select scenario, model, method, method_position, shots, formulation, metric,
        count(*) as tasks, avg(value) as value,
        case when count(stderr) = count(*)
            then sqrt(sum(stderr ^ 2)) / count(*) end as error,
        max(seeds) as seeds
    from tasks
    group by all
),

chances as (
    select scenario, model, shots, formulation, metric, task, max(chance) as chance,
        max(examples) as examples
    from tasks
    group by all
),

cells as (
    select scenario, model, method, shots, formulation, metric, 'method' as kind,
        method_position as row_position, method as row_label, 0 as column_position,
        task as column_label, '%' as unit, value, stderr as error, 1 as decimals,
        case when metric <> 'answer_only' then 'higher' end as better
    from tasks
    union all
    select scenario, model, method, shots, formulation, metric, 'method', method_position, method,
        1, 'mean', '%', value, error, 1, case when metric <> 'answer_only' then 'higher' end
    from averaged
    union all
    select scenario, model, method, shots, formulation, metric, 'method', method_position, method,
        2, 'seeds', null, seeds, null, 0, null
    from averaged
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5000, 'chance',
        0, task, '%', chance, null, 1, null
    from chances
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5000, 'chance',
        1, 'mean', '%', avg(chance), null, 1, null
    from chances
    group by all
    having count(chance) = count(*)
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5001, 'token overlap',
        0, task, '%', value, null, 1, null
    from counted
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5001, 'token overlap',
        1, 'mean', '%', avg(value), null, 1, null
    from counted
    group by all
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5002, 'items',
        0, task, '%', examples, null, 0, null
    from chances
)

select
    c.scenario,
    c.model,
    c.method,
    c.shots,
    c.formulation,
    c.metric,
    c.scenario || ' / ' || c.model || ' / ' || c.formulation
        || case when c.metric <> c.formulation then ', ' || c.metric else '' end
        || ', ' || c.shots || '-shot' as section,
    c.kind,
    c.row_position,
    c.row_label,
    c.column_position,
    c.column_label,
    c.unit,
    c.value,
    c.error,
    c.decimals,
    c.better
from cells as c
join scenarios as s on c.scenario = s.scenario
order by
    s.position, c.model, c.formulation, c.metric <> c.formulation, c.metric = 'answer_only',
    c.metric, c.shots, c.row_position, c.row_label,
    c.column_position, c.column_label
