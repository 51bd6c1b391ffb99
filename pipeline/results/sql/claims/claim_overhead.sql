-- The claim about what PiKE's estimates cost: their percentage of the training time.
with measured as (
    select
        p.scenario || ' / ' || p.model || ': ' || p.method as cell,
        p.scenario as our_scenario,
        p.published_scenario as scenario,
        p.published_model as model,
        100 * sum(t.seconds) filter (t.phase = 'statistics') / sum(t.seconds) as share
    from played_runs as p
    join timings as t on p.run = t.run
    where p.published_method = 'pike'
    group by p.run, p.scenario, p.model, p.method, p.published_scenario, p.published_model
),

ours as (
    select * exclude (share), 'ours' as side, avg(share) as value,
        stddev_samp(share) / sqrt(count(*)) as stderr, count(*) as seeds
    from measured
    group by all
)

select 'overhead' as claim, 'time' as quantity, 'paper' as side, scenario, model, 'pike' as method,
    scenario || ', ' || params as cell, value, low, high
from printed
where metric = 'pike_overhead_pct'
union all by name
select 'overhead' as claim, 'time' as quantity, *, 'pike' as method,
    value - t95(seeds - 1) * stderr as low, value + t95(seeds - 1) * stderr as high
from ours
order by claim, side, cell
