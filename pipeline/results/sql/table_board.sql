-- Methods over drawn scenarios, with a target and without: the target loss minus that of the baseline, mean over
-- scenarios of means over seeds, behind ± half of the 95% interval over scenarios, of each method by itself; p,
-- two-sided, corrected (Holm) for all methods of the section; the largest difference of a scenario; and the cost
-- in steps of the baseline.
--
-- Of a method that lacks scenarios nothing is marked.
-- cost and with others: those of steps_of_baseline, means over scenarios and seeds.
with costs as (
    select d.board, c.model, c.method,
        mean_of_all(c.steps, c.steps) as steps, mean_of_all(c.with_others, c.with_others) as with_others
    from steps_of_baseline as c
    join (select distinct board, scenario from scenario_differences) as d using (scenario)
    group by d.board, c.model, c.method
),

cells as (
    select b.board, b.model, b.method, b.difference as place, c.*
    from (
        select *, if(scenarios = max(scenarios) over (partition by board, model), 'lower', null) as better
        from boards
    ) as b
    join experiment as e on b.against = e.baseline
    left join costs as k using (board, model, method)
    cross join lateral (values
        (0, 'against ' || e.baseline, 'nats', b.difference, b.half, 3, b.better,
            shown(b.scenarios, b.p_holm, -b.difference), null),
        (1, 'p', null, b.p_holm, null, 4, null, null, null),
        (2, 'largest', 'nats', b.worst, null, 3, null, null, null),
        (3, 'on', null, null, null, 0, null, null, b.worst_scenario),
        (4, 'scenarios', null, b.scenarios, null, 0, null, null, null),
        (5, 'seeds', null, b.seeds, null, 0, null, null, null),
        (6, 'cost', 'steps of ' || e.baseline, k.steps, null, 0, null, null, null),
        (7, 'with others', 'steps of ' || e.baseline, k.with_others, null, 0, null, null, null)
    ) as c (column_position, column_label, unit, value, error, decimals, better, significant, text)
)

select
    null as scenario,
    model,
    method,
    board || ' / ' || model as section,
    'method' as kind,
    row_number() over (partition by board, model, column_position order by place, method) as row_position,
    method as row_label,
    * exclude (board, model, method, place) replace (coalesce(significant, false) as significant)
from cells
order by board, model, row_position, column_position
