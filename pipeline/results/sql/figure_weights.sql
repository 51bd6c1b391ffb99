-- The share of each domain in what is drawn for a batch, while training goes on. Static methods stay
-- flat; adaptive ones move. Averaged over stretches of steps and over seeds.
--
-- There are at most 50 stretches of steps; step is the end of one.
with lengths as (
    select run, max(step) + 1 as steps from weights group by run
),

stretches as (
    select
        w.run,
        w.domain,
        w.step * least(50, l.steps) // l.steps as stretch,
        max(w.step) + 1 as step,
        avg(w.weight) as weight
    from weights as w
    join lengths as l using (run)
    group by all
)

select
    r.scenario,
    r.model,
    r.method,
    m.position as method_position,
    w.domain,
    coalesce(d.position, 1000) as domain_position,
    w.step,
    avg(w.weight) as weight,
    count(*) as seeds
from stretches as w
join runs as r using (run)
join methods as m using (method)
join scenarios as s using (scenario)
left join domains as d using (scenario, domain)
group by s.position, r.scenario, r.model, r.method, m.position, w.domain, d.position, w.step
order by s.position, r.scenario, r.model, m.position, domain_position, w.domain, w.step
