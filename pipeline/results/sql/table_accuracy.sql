-- Accuracy after the last step, in percent, higher is better: multiple choice between the true
-- answer and others. Behind ± one standard error over items and seeds. Below: what picking at random
-- and counting shared tokens give, and the number of items. The last columns compare the mean with
-- the baseline's on the same items and seeds: the difference in percentage points, and the
-- probability of one as large by chance, corrected (Holm) for all methods and tasks of the section.
-- The mean is over mean_tasks, in the paper's tables too: without tasks that are chance by construction.
--
-- One section per formulation, metric and number of demonstrations, the formulation's own metric
-- first. The metric `overlap` looks at no model, only at tokens that context and candidate share, so
-- it is one more row below each section; `answer_only` (the candidates without their context) has
-- a section without bold: it should stay near chance. Errors are derived in method_accuracies.
-- significant: p_holm of accuracy_tests is below 0.05, over two seeds or more, and the method ahead.
-- above_chance: one-sided at 95%, by the cell's own error.
with named as (
    select a.*, m.position as method_position, k.task is not null as in_mean
    from method_accuracies as a
    join methods as m on a.method = m.method
    left join mean_tasks as k on a.scenario = k.scenario and a.task = k.task
),

tasks as (
    select n.*, t.significant,
        case when n.chance is not null
            then coalesce(n.value - 1.645 * n.stderr > n.chance, false) end as above_chance
    from named as n
    left join baseline_tests as t
        on n.scenario = t.scenario and n.model = t.model and n.method = t.method
        and n.task = t.task and n.shots = t.shots and n.formulation = t.formulation
        and n.metric = t.metric
    where n.metric <> 'overlap'
),

counted as (
    select t.scenario, t.model, t.shots, t.formulation, t.metric, t.task, t.in_mean,
        max(n.value) as value
    from tasks as t
    join named as n
        on t.scenario = n.scenario and t.model = n.model and t.method = n.method
        and t.task = n.task and t.shots = n.shots and t.formulation = n.formulation
    where n.metric = 'overlap'
    group by all
),

summed as (
    select scenario, model, method, method_position, shots, formulation, metric,
        avg(value order by task) as value, mean_error(stderr, task) as error,
        case when count(chance) = count(*) then avg(chance order by task) end as chance,
        max(seeds) as seeds
    from tasks
    where in_mean
    group by all
),

averaged as (
    select s.*, case when s.chance is not null
            then coalesce(s.value - 1.645 * s.error > s.chance, false) end as above_chance,
        t.significant, t.against, t.difference, t.stderr as difference_stderr, t.p_holm
    from summed as s
    left join baseline_tests as t
        on s.scenario = t.scenario and s.model = t.model and s.method = t.method
        and t.task = 'mean' and s.shots = t.shots and s.formulation = t.formulation
        and s.metric = t.metric
),

chances as (
    select scenario, model, shots, formulation, metric, task, in_mean, max(chance) as chance,
        max(examples) as examples
    from tasks
    group by all
),

of_methods as (
    select scenario, model, method, method_position, shots, formulation, metric, significant,
        {'place': 0, 'label': task, 'unit': '%', 'value': value, 'error': stderr, 'decimals': 1,
         'better': if(task in (select task from chance_tasks), null, 'higher'),
         'above_chance': above_chance} as cell
    from tasks
    union all
    select scenario, model, method, method_position, shots, formulation, metric, significant,
        unnest([
            {'place': 1, 'label': 'mean', 'unit': '%', 'value': value, 'error': error,
             'decimals': 1, 'better': 'higher', 'above_chance': above_chance},
            {'place': 2, 'label': 'mean against ' || against, 'unit': 'points',
             'value': difference, 'error': difference_stderr, 'decimals': 1, 'better': 'higher',
             'above_chance': null},
            {'place': 3, 'label': if(against is null, null, 'p'), 'unit': null, 'value': p_holm,
             'error': null, 'decimals': 3, 'better': null, 'above_chance': null},
            {'place': 4, 'label': 'seeds', 'unit': null, 'value': seeds, 'error': null,
             'decimals': 0, 'better': null, 'above_chance': null}
        ])
    from averaged
),

below as (
    select scenario, model, shots, formulation, metric, task as label, 0 as place,
        unnest([
            {'place': 5000, 'label': 'chance', 'value': chance, 'decimals': 1},
            {'place': 5002, 'label': 'items', 'value': examples, 'decimals': 0}
        ]) as cell
    from chances
    union all
    select scenario, model, shots, formulation, metric, 'mean', 1,
        {'place': 5000, 'label': 'chance', 'value': avg(chance), 'decimals': 1}
    from chances
    where in_mean
    group by all
    having count(chance) = count(*)
    union all
    select scenario, model, shots, formulation, metric, task, 0,
        {'place': 5001, 'label': 'token overlap', 'value': value, 'decimals': 1}
    from counted
    union all
    select scenario, model, shots, formulation, metric, 'mean', 1,
        {'place': 5001, 'label': 'token overlap', 'value': avg(value), 'decimals': 1}
    from counted
    where in_mean
    group by all
),

cells as (
    select scenario, model, method, shots, formulation, metric, 'method' as kind,
        method_position as row_position, method as row_label, cell.place as column_position,
        cell.label as column_label, cell.unit, cell.value, cell.error, cell.decimals,
        if(metric = 'answer_only', null, cell.better) as better,
        coalesce(cell.better = 'higher' and significant, false) as significant, cell.above_chance
    from of_methods
    where cell.label is not null
    union all
    select scenario, model, null, shots, formulation, metric, 'reference', cell.place, cell.label,
        place, label, '%', cell.value, null, cell.decimals, null, false, null
    from below
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
    c.* exclude (scenario, model, method, shots, formulation, metric)
from cells as c
join scenarios as s on c.scenario = s.scenario
order by
    s.position, c.model, c.formulation, c.metric <> c.formulation, c.metric = 'answer_only',
    c.metric, c.shots, c.row_position, c.row_label,
    c.column_position, c.column_label
