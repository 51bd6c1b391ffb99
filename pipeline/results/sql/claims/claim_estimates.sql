-- Claims about PiKE's estimates: that their variance term matters, that one batch suffices, and how long
-- they take.
with measured as (
    select
        p.scenario as our_scenario,
        p.model as our_model,
        p.published_scenario,
        p.published_model,
        p.method,
        p.seed,
        100 * sum(t.seconds) filter (t.phase = 'statistics') / sum(t.seconds) as share
    from played_runs as p
    join timings as t on p.run = t.run
    where p.published_method = 'pike'
    group by all
),

overheads as (
    select
        our_scenario,
        published_scenario as scenario,
        published_model as model,
        our_scenario || ' / ' || our_model || ': ' || method as cell,
        avg(share) as value,
        stddev_samp(share) / sqrt(count(*)) as stderr,
        count(*) as seeds
    from measured
    group by published_scenario, published_model, our_scenario, our_model, method
)

select 'variance-term' as claim, *
from pairs
where quantity = 'accuracy' and method = 'pike-zeta1=0.1-zeta2=0.005' and against = 'pike-zeta1=0.1-zeta2=0'
union all by name
select 'variance-term-any' as claim, *
from pairs
where quantity = 'accuracy' and method like 'pike-zeta1=0.1-zeta2=%' and against = 'pike-zeta1=0.1-zeta2=0'
union all by name
select 'one-estimate-suffices' as claim, *
from pairs
where quantity = 'accuracy' and method = 'pike-estimates=1' and against like 'pike-estimates=%'
union all by name
select
    'overhead' as claim,
    'time' as quantity,
    'paper' as side,
    scenario,
    model,
    method,
    scenario || ', ' || params as cell,
    value,
    low,
    high
from printed
where metric = 'pike_overhead_pct'
union all by name
select
    'overhead' as claim,
    'time' as quantity,
    'ours' as side,
    o.scenario,
    o.model,
    'pike' as method,
    o.cell,
    o.value,
    o.value - coalesce(t.quantile, 1.96) * o.stderr as low,
    o.value + coalesce(t.quantile, 1.96) * o.stderr as high,
    o.stderr,
    o.seeds,
    o.our_scenario
from overheads as o
left join students_t as t on o.seeds - 1 = t.degrees
order by claim, side, cell
