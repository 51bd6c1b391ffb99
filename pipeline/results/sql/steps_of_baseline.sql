-- What a run costs in steps of the baseline: the time of its method's steps, each the median over seeds, since
-- other processes of the machine slow some down, over the baseline's mean step on the same scenario and model.
-- `with_others` adds the runs that it stands on, of whatever model, each once: its reference, and those that its
-- mixture or its settings were found from. Nothing where the baseline, or one of these, had
-- another kind of device: times differ.
with recursive typical as (
    select r.scenario, r.model, r.method, r.device, s.step, median(s.seconds) as seconds
    from steps as s
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
)

select
    r.run,
    r.scenario,
    r.model,
    r.method,
    r.seed,
    any_value(own.seconds / own.pace) as steps,
    case when bool_and(c.device = own.device) then sum(c.seconds order by o.input) / any_value(own.pace) end as with_others
from runs as r
join cost as own using (run)
join stood_on as o on 'run/' || r.run = o.artifact
join cost as c on o.input = 'run/' || c.run
group by r.run, r.scenario, r.model, r.method, r.seed
order by r.run
