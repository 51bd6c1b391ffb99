-- Accuracy after the last step, in percent, higher is better: multiple choice between the true
-- answer and others. Behind ± one standard error over items and seeds. Below: what picking at random
-- and counting shared tokens give, and the number of items. The last columns compare the mean with
-- the baseline's on the same items and seeds: the difference in percentage points, and the
-- probability of one as large by chance, corrected (Holm) for all methods and tasks of the section.
-- The mean is over all tasks of a section; that of the paper's tables over those that it prints.
--
-- One section per formulation, metric and number of demonstrations, the formulation's own metric
-- first. The metric `overlap` looks at no model, only at tokens that context and candidate share, so
-- it is one more row below each section; `answer_only` (the candidates without their context) has
-- a section without bold: it should stay near chance. Errors are derived in method_accuracies.
-- significant: p_holm of accuracy_tests is below 0.05, over two seeds or more, and the method ahead.
-- above_chance: one-sided at 95%, by the cell's own error.
with named as (
    select a.*, m.position as method_position
    from method_accuracies as a
    join methods as m on a.method = m.method
),

tests as (
    select t.*, t.p_holm < 0.05 and t.seeds >= 2 and t.difference > 0 as significant
    from accuracy_tests as t
    join experiment as e on t.against = e.baseline
),

tasks as (
    select n.*, t.significant,
        case when n.chance is not null
            then coalesce(n.value - 1.645 * n.stderr > n.chance, false) end as above_chance
    from named as n
    left join tests as t
        on n.scenario = t.scenario and n.model = t.model and n.method = t.method
        and n.task = t.task and n.shots = t.shots and n.formulation = t.formulation
        and n.metric = t.metric
    where n.metric <> 'overlap'
),

counted as (
    select t.scenario, t.model, t.shots, t.formulation, t.metric, t.task, max(n.value) as value
    from tasks as t
    join named as n
        on t.scenario = n.scenario and t.model = n.model and t.method = n.method
        and t.task = n.task and t.shots = n.shots and t.formulation = n.formulation
    where n.metric = 'overlap'
    group by all
),

summed as (
    select scenario, model, method, method_position, shots, formulation, metric,
        count(*) as tasks, avg(value) as value,
        case when count(stderr) = count(*)
            then sqrt(sum(stderr ^ 2)) / count(*) end as error,
        case when count(chance) = count(*) then avg(chance) end as chance,
        max(seeds) as seeds
    from tasks
    group by all
),

averaged as (
    select s.*, case when s.chance is not null
            then coalesce(s.value - 1.645 * s.error > s.chance, false) end as above_chance,
        t.significant, t.against, t.difference, t.stderr as difference_stderr, t.p_holm
    from summed as s
    left join tests as t
        on s.scenario = t.scenario and s.model = t.model and s.method = t.method
        and t.task = 'mean' and s.shots = t.shots and s.formulation = t.formulation
        and s.metric = t.metric
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
        case when metric <> 'answer_only' then 'higher' end as better, significant, above_chance
    from tasks
    union all
    select scenario, model, method, shots, formulation, metric, 'method', method_position, method,
        1, 'mean', '%', value, error, 1, case when metric <> 'answer_only' then 'higher' end,
        significant, above_chance
    from averaged
    union all
    select scenario, model, method, shots, formulation, metric, 'method', method_position, method,
        2, 'mean against ' || against, 'points', difference, difference_stderr, 1,
        case when metric <> 'answer_only' then 'higher' end, significant, null
    from averaged
    where against is not null
    union all
    select scenario, model, method, shots, formulation, metric, 'method', method_position, method,
        3, 'p', null, p_holm, null, 3, null, null, null
    from averaged
    where against is not null
    union all
    select scenario, model, method, shots, formulation, metric, 'method', method_position, method,
        4, 'seeds', null, seeds, null, 0, null, null, null
    from averaged
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5000, 'chance',
        0, task, '%', chance, null, 1, null, null, null
    from chances
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5000, 'chance',
        1, 'mean', '%', avg(chance), null, 1, null, null, null
    from chances
    group by all
    having count(chance) = count(*)
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5001, 'token overlap',
        0, task, '%', value, null, 1, null, null, null
    from counted
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5001, 'token overlap',
        1, 'mean', '%', avg(value), null, 1, null, null, null
    from counted
    group by all
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', 5002, 'items',
        0, task, '%', examples, null, 0, null, null, null
    from chances
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
    c.kind,
    c.row_position,
    c.row_label,
    c.column_position,
    c.column_label,
    c.unit,
    c.value,
    c.error,
    c.decimals,
    c.better,
    coalesce(c.significant, false) as significant,
    c.above_chance
from cells as c
join scenarios as s on c.scenario = s.scenario
order by
    s.position, c.model, c.formulation, c.metric <> c.formulation, c.metric = 'answer_only',
    c.metric, c.shots, c.row_position, c.row_label,
    c.column_position, c.column_label
