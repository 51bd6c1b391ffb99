-- Loss on held-out text of each domain while training goes on, in nats per token: lower is better.
-- Dashed lines: the frequencies of single tokens and, where it is known, the entropy below which no
-- model can go. What lies above the first, such as untrained models, is cut. A line is the mean over
-- seeds and its band the 95% interval over seeds and documents; a line without a band is of one seed.
--
-- low and high: the ends of that interval.
select
    v.scenario,
    v.model,
    v.method,
    m.position as method_position,
    v.domain,
    v.domain_position,
    v.step,
    ordered_mean(v.nll) as nll,
    half_width(stddev_samp(v.nll order by v.nll), count(*), sqrt(ordered_mean(v.nll_stderr ^ 2))) as error,
    ordered_mean(v.nll) - error as low,
    ordered_mean(v.nll) + error as high,
    count(*) as seeds,
    any_value(v.uniform) as uniform,
    any_value(v.unigram) as unigram,
    any_value(v."floor") as "floor"
from validation as v
join curve_runs using (run)
join methods as m using (method)
join scenarios as s using (scenario)
group by v.scenario, s.position, v.model, v.method, m.position, v.domain, v.domain_position, v.step
order by s.position, v.scenario, v.model, v.domain_position, v.domain, m.position, v.step
