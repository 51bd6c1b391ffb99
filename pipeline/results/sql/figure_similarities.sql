-- How alike the gradients of two domains are at each checkpoint: a cosine of 1 means that both pull the
-- same way, 0 that neither minds the other, -1 that one undoes the other. Noise alone lowers the plain
-- cosine, so the one with noise taken out stands beside it. The ratio is the paper's: the inner product
-- divided by the sum of both squared lengths, a half for equal gradients and near zero where one is much
-- longer.
--
-- cosine_corrected is missing where no signal is left. Means over seeds, with half of their 95% intervals.
select
    r.scenario,
    r.model,
    r.method,
    m.position as method_position,
    p.domain_a || ' and ' || p.domain_b as pair,
    coalesce(a.position, 1000) * 10000 + coalesce(b.position, 1000) as pair_position,
    p.step,
    ordered_mean(p.cosine) as cosine,
    ordered_mean(p.cosine_corrected) as cosine_corrected,
    ordered_mean(p.ratio) as ratio,
    half_over(p.cosine) as cosine_half,
    half_over(p.cosine_corrected) as cosine_corrected_half,
    half_over(p.ratio) as ratio_half,
    count(*) as seeds
from similarities as p
join runs as r using (run)
join methods as m using (method)
join scenarios as s using (scenario)
left join domains as a on r.scenario = a.scenario and p.domain_a = a.domain
left join domains as b on r.scenario = b.scenario and p.domain_b = b.domain
group by
    s.position, r.scenario, r.model, r.method, m.position, p.domain_a, p.domain_b, a.position,
    b.position, p.step
order by s.position, r.scenario, r.model, m.position, pair_position, pair, p.step
