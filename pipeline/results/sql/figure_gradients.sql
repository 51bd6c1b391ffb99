-- What PiKE measures when it sets its weights: the squared length of each domain's gradient, the
-- variance between rows, and their quotient, the number of rows at which signal and noise are equal.
-- Values that come out negative are left out.
--
-- Means over seeds. noise_scale is the ratio of the means (of variance and of the unbiased squared
-- norm), in rows, which is steadier than the mean of ratios; missing where the mean squared norm is not
-- positive.
select
    r.scenario,
    r.model,
    r.method,
    m.position as method_position,
    g.domain,
    coalesce(d.position, 1000) as domain_position,
    g.step,
    ordered_mean(g.squared_norm) as squared_norm,
    ordered_mean(g.squared_norm_unbiased) as squared_norm_unbiased,
    ordered_mean(g.variance) as variance,
    case when ordered_mean(g.squared_norm_unbiased) > 0
        then ordered_mean(g.variance) / ordered_mean(g.squared_norm_unbiased) end as noise_scale,
    count(*) as seeds
from gradient_statistics as g
join runs as r using (run)
join methods as m using (method)
join scenarios as s using (scenario)
left join domains as d using (scenario, domain)
group by s.position, r.scenario, r.model, r.method, m.position, g.domain, d.position, g.step
order by s.position, r.scenario, r.model, m.position, domain_position, g.domain, g.step
