-- What the runs cost: wall time, speed and the share of each phase, as means over seeds with half of
-- their 95% interval behind ± (none for one seed). Runs compare only where they had the machine to
-- themselves. No time is told of a row whose runs had several kinds of device.
with by_method as (
    select scenario, model, method, min(device) is not distinct from max(device) as one_kind,
        ordered_mean(wall_seconds) as seconds, half_over(wall_seconds) as seconds_half,
        ordered_mean(tokens_per_second) as speed, half_over(tokens_per_second) as speed_half,
        sum(resumes) as resumes, count(*) as seeds
    from runs
    group by all
),

cells as (
    select b.scenario, b.model, b.method, c.*
    from by_method as b
    cross join lateral (values
        (0, 'wall time', 's', case when one_kind then b.seconds end, case when one_kind then b.seconds_half end, 1),
        (1, 'speed', 'tokens/s', case when one_kind then b.speed end, case when one_kind then b.speed_half end, 0),
        (3, 'resumes', null, b.resumes, null, 0),
        (4, 'seeds', null, b.seeds, null, 0)
    ) as c (column_position, column_label, unit, value, error, decimals)
    union all
    select scenario, model, method, 2, t.phase, '% of time', ordered_mean(100 * t.share),
        half_over(100 * t.share), 1
    from timings as t
    join runs using (run)
    join by_method as b using (scenario, model, method)
    where b.one_kind
    group by all
)

select r.* exclude (scenario_position), c.* exclude (scenario, model, method)
from cells as c
join method_rows as r using (scenario, model, method)
order by r.scenario_position, r.model, r.row_position, r.method, c.column_position, c.column_label
