-- Validation loss over training: the mean over seeds and its range, by domain, in nats per token.
select
    v.scenario,
    v.model,
    v.method,
    m.position as method_position,
    v.domain,
    v.domain_position,
    v.step,
    avg(v.nll) as nll,
    min(v.nll) as low,
    max(v.nll) as high,
    count(*) as seeds,
    any_value(v.uniform) as uniform,
    any_value(v.unigram) as unigram,
    any_value(v."floor") as "floor"
from validation as v
join methods as m on v.method = m.method
join scenarios as s on v.scenario = s.scenario
group by v.scenario, s.position, v.model, v.method, m.position, v.domain, v.domain_position, v.step
order by s.position, v.scenario, v.model, v.domain_position, v.domain, m.position, v.step
