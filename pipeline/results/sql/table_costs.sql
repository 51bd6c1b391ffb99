-- What the runs cost: wall time, speed and the share of each phase, as means over seeds with the
-- standard deviation over seeds behind ± (none for one seed). Runs compare only where they had the
-- machine to themselves.
with phases as (
    select r.scenario, r.model, r.method, t.phase, avg(100 * t.share) as value,
        stddev_samp(100 * t.share) as error
    from timings as t
    join runs as r on t.run = r.run
    group by all
),

totals as (
    select scenario, model, method, count(*) as seeds, avg(wall_seconds) as seconds,
        stddev_samp(wall_seconds) as seconds_sd, avg(tokens_per_second) as speed,
        stddev_samp(tokens_per_second) as speed_sd, sum(resumes) as resumes
    from runs
    group by all
),

cells as (
    select scenario, model, method, 0 as column_position, 'wall time' as column_label,
        's' as unit, seconds as value, seconds_sd as error, 1 as decimals, null as better
    from totals
    union all
    select scenario, model, method, 1, 'speed', 'tokens/s', speed, speed_sd, 0, null
    from totals
    union all
    select scenario, model, method, 2, phase, '% of time', value, error, 1, null from phases
    union all
    select scenario, model, method, 3, 'resumes', null, resumes, null, 0, null from totals
    union all
    select scenario, model, method, 4, 'seeds', null, seeds, null, 0, null from totals
)

select
    c.scenario,
    c.model,
    c.method,
    c.scenario || ' / ' || c.model as section,
    'method' as kind,
    m.position as row_position,
    c.method as row_label,
    c.* exclude (scenario, model, method)
from cells as c
join methods as m on c.method = m.method
join scenarios as s on c.scenario = s.scenario
order by s.position, c.model, m.position, c.method, c.column_position, c.column_label
