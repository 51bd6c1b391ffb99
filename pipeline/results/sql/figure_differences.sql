-- Validation losses minus those of the baseline at the same step, in nats, mean over the seeds of both: below
-- zero a method is ahead. The axis suits the methods near the baseline; others may leave it.
with drawn as (select v.* from validation as v join curve_runs using (run))

select a.scenario, a.model, a.method, m.position as method_position, a.domain, a.domain_position, a.step,
    avg(a.nll - b.nll order by a.seed) as difference, count(*) as seeds
from drawn as a
join drawn as b using (scenario, model, seed, domain, step)
join experiment as e on b.method = e.baseline and a.method <> e.baseline
join methods as m on a.method = m.method
join scenarios as s using (scenario)
group by a.scenario, s.position, a.model, a.method, m.position, a.domain, a.domain_position, a.step
order by s.position, a.scenario, a.model, a.domain_position, a.domain, m.position, a.step
