-- What the runs cost: wall time, speed and the share of each phase, as means over seeds with half of
-- their 95% interval behind ± (none for one seed). Runs compare only where they had the machine to
-- themselves. No time is told of a row whose runs had several kinds of device.
with timed as (
    select run, scenario, model, method, wall_seconds, tokens_per_second
    from runs
    window alike as (partition by scenario, model, method)
    qualify min(device) over alike is not distinct from max(device) over alike
),

phases as (
    select r.scenario, r.model, r.method, t.phase, ordered_mean(100 * t.share) as value,
        half_over(100 * t.share) as error
    from timings as t
    join timed as r using (run)
    group by all
),

times as (
    select scenario, model, method, ordered_mean(wall_seconds) as seconds,
        half_over(wall_seconds) as seconds_half, ordered_mean(tokens_per_second) as speed,
        half_over(tokens_per_second) as speed_half
    from timed
    group by all
),

counts as (
    select scenario, model, method, count(*) as seeds, sum(resumes) as resumes
    from runs
    group by all
),

cells as (
    select n.scenario, n.model, n.method, c.*
    from counts as n
    left join times as t using (scenario, model, method)
    cross join lateral (values
        (0, 'wall time', 's', t.seconds, t.seconds_half, 1),
        (1, 'speed', 'tokens/s', t.speed, t.speed_half, 0),
        (3, 'resumes', null, n.resumes, null, 0),
        (4, 'seeds', null, n.seeds, null, 0)
    ) as c (column_position, column_label, unit, value, error, decimals)
    union all
    select scenario, model, method, 2, phase, '% of time', value, error, 1 from phases
)

select r.* exclude (scenario_position), c.* exclude (scenario, model, method)
from cells as c
join method_rows as r using (scenario, model, method)
order by r.scenario_position, r.model, r.row_position, r.method, c.column_position, c.column_label
