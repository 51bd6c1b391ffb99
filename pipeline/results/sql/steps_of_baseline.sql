-- What a run costs in steps of the baseline: the time of its method's steps, each the median over seeds, since
-- other processes of the machine slow some down, over the baseline's mean step on the same scenario and model. A step
-- of more than fifty times its run's median is told as so long: the machine stood still.
-- `with_others` adds the runs that it stands on, of whatever model, each once: its reference, and those that its
-- mixture or its settings were found from. Nothing where the baseline, or one of these, had
-- another kind of device: times differ; nor where the database lacks it.
with recursive paced as (
    select run, step, least(seconds, 50 * median(seconds) over (partition by run)) as seconds from steps
),

typical as (
    select r.scenario, r.model, r.method, r.device, s.step, median(s.seconds) as seconds
    from paced as s
    join runs as r using (run)
    group by r.scenario, r.model, r.method, r.device, s.step
),

spent as (
    select scenario, model, method, device, sum(seconds order by step) as seconds, avg(seconds order by step) as pace
    from typical
    group by scenario, model, method, device
),

cost as (
    select r.run, r.device, s.seconds, b.pace
    from runs as r
    join spent as s using (scenario, model, method, device)
    join experiment as e on true
    left join spent as b
        on r.scenario = b.scenario and r.model = b.model and r.device = b.device and b.method = e.baseline
),

parents as (
    select distinct artifact, unnest(inputs) as input from lineage
),

stood_on as (
    select 'run/' || run as artifact, 'run/' || run as input from runs
    union
    select s.artifact, p.input
    from stood_on as s
    join parents as p on s.input = p.artifact
    where split_part(p.input, '/', 1) in ('run', 'evaluation', 'mixture')
),

-- An evaluation is named as its run.
runs_behind as (
    select distinct substr(artifact, 5) as run, substr(input, position('/' in input) + 1) as input
    from stood_on
    where split_part(input, '/', 1) in ('run', 'evaluation')
)

select
    r.run,
    r.scenario,
    r.model,
    r.method,
    r.seed,
    any_value(own.seconds / own.pace) as steps,
    case when bool_and(coalesce(c.device = own.device, false)) then sum(c.seconds order by o.input) / any_value(own.pace) end as with_others
from runs as r
join cost as own using (run)
join runs_behind as o using (run)
left join cost as c on o.input = c.run
group by r.run, r.scenario, r.model, r.method, r.seed
order by r.run
