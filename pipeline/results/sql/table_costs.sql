-- What the runs cost: wall time, speed and the share of each phase, as means over seeds with half of
-- their 95% interval behind ± (none for one seed). Runs compare only where they had the
-- machine to themselves.
with phases as (
    select r.scenario, r.model, r.method, t.phase, avg(100 * t.share order by 100 * t.share) as value,
        half_of_mean(stddev_samp(100 * t.share order by 100 * t.share), count(*)) as error
    from timings as t
    join runs as r using (run)
    group by all
),

totals as (
    select scenario, model, method, count(*) as seeds, avg(wall_seconds order by wall_seconds) as seconds,
        half_of_mean(stddev_samp(wall_seconds order by wall_seconds), count(*)) as seconds_half, avg(tokens_per_second order by tokens_per_second) as speed,
        half_of_mean(stddev_samp(tokens_per_second order by tokens_per_second), count(*)) as speed_half, sum(resumes) as resumes
    from runs
    group by all
),

cells as (
    select t.scenario, t.model, t.method, c.*
    from totals as t
    cross join lateral (values
        (0, 'wall time', 's', t.seconds, t.seconds_half, 1),
        (1, 'speed', 'tokens/s', t.speed, t.speed_half, 0),
        (3, 'resumes', null, t.resumes, null, 0),
        (4, 'seeds', null, t.seeds, null, 0)
    ) as c (column_position, column_label, unit, value, error, decimals)
    union all
    select scenario, model, method, 2, phase, '% of time', value, error, 1 from phases
)

select r.* exclude (scenario_position), c.* exclude (scenario, model, method)
from cells as c
join method_rows as r using (scenario, model, method)
order by r.scenario_position, r.model, r.row_position, r.method, c.column_position, c.column_label
