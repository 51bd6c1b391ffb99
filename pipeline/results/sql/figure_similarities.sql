-- Cosine and ratio, inner product / (sum of both squared norms), of the domains' gradients over
-- training, by pair of domains: means over seeds, with their standard errors over seeds.
-- cosine falls when noise grows, by itself; cosine_corrected has the noise taken out of the norms
-- and is missing where no signal is left.
select
    r.scenario,
    r.model,
    r.method,
    m.position as method_position,
    p.domain_a || ' and ' || p.domain_b as pair,
    coalesce(a.position, 1000) * 10000 + coalesce(b.position, 1000) as pair_position,
    p.step,
    avg(p.cosine) as cosine,
    avg(p.cosine_corrected) as cosine_corrected,
    avg(p.ratio) as ratio,
    stddev_samp(p.cosine) / sqrt(count(*)) as cosine_error,
    stddev_samp(p.cosine_corrected) / sqrt(count(p.cosine_corrected)) as cosine_corrected_error,
    stddev_samp(p.ratio) / sqrt(count(*)) as ratio_error,
    count(*) as seeds
from similarities as p
join runs as r on p.run = r.run
join methods as m on r.method = m.method
join scenarios as s on r.scenario = s.scenario
left join domains as a on r.scenario = a.scenario and p.domain_a = a.domain
left join domains as b on r.scenario = b.scenario and p.domain_b = b.domain
group by
    s.position, r.scenario, r.model, r.method, m.position, p.domain_a, p.domain_b, a.position,
    b.position, p.step
order by s.position, r.scenario, r.model, m.position, pair_position, pair, p.step
