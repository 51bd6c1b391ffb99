-- The share of each domain in what is drawn for a batch, while training goes on. Static methods stay
-- flat; adaptive ones move. Averaged over stretches of steps and over seeds, whose range is the band; of methods that give each
-- batch to one domain, the first 40 batches of one seed.
--
-- There are at most 50 stretches of steps; step is the end of one.
with lengths as (
    select run, max(step) + 1 as steps from weights group by run
),

owners as (
    select run, step, arg_max(domain, weight order by domain) as domain, max(weight) as weight
    from weights
    group by run, step
),

alternating as (
    select run from owners group by run having min(weight) > 0.999 and count(distinct domain) > 1
),

stretches as (
    select
        w.run,
        w.domain,
        false as alternates,
        w.step * least(50, l.steps) // l.steps as stretch,
        max(w.step) + 1 as step,
        ordered_mean(w.weight) as weight
    from weights as w
    join lengths as l using (run)
    anti join alternating using (run)
    group by all
    union all by name
    select w.run, w.domain, true as alternates, w.step as stretch, w.step + 1 as step, w.weight
    from weights as w
    join alternating using (run)
    join runs as r using (run)
    where w.step < 40
    qualify r.seed = min(r.seed) over (partition by r.scenario, r.model, r.method)
)

select
    r.scenario,
    r.model,
    r.method,
    m.position as method_position,
    w.domain,
    coalesce(d.position, 1000) as domain_position,
    w.alternates,
    w.step,
    ordered_mean(w.weight) as weight,
    count(*) as seeds,
    case when count(*) > 1 then min(w.weight) end as low,
    case when count(*) > 1 then max(w.weight) end as high
from stretches as w
join runs as r using (run)
join methods as m using (method)
join scenarios as s using (scenario)
left join domains as d using (scenario, domain)
group by s.position, r.scenario, r.model, r.method, m.position, w.domain, d.position, w.alternates,
    w.step
order by s.position, r.scenario, r.model, m.position, domain_position, w.domain, w.step
