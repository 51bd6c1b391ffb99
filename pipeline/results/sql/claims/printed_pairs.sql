-- Two methods of the paper beside each other, by its names. quantity says what value is:
--   accuracy    by how many percent the method's mean accuracy is higher than the other's, 100 (a / b - 1)
--   perplexity  by how many percent its mean perplexity is lower, 100 (1 - a / b)
--   spread      how much less its losses differ between domains, in nats: standard deviations over the
--               domains of the logarithms of the printed perplexities
-- low and high: what rounding leaves open. stderr: binomial and unpaired (see printed), an upper bound for
-- runs on the same items; none for perplexities. A run on one domain stands beside those on all of them.
with means as (
    select distinct metric as quantity, scenario, model, params, method, shots, value, low, high, stderr
    from printed
    where task = 'average' and (metric = 'accuracy' or metric = 'perplexity' and method not like 'single-%')
    union all
    select 'spread', scenario, model, params, method, null, stddev_pop(ln(value) order by task) as spread,
        spread - max((high - low) / 2 / value), spread + max((high - low) / 2 / value), null
    from (select distinct on (scenario, model, params, method, task) * from printed
        where metric = 'perplexity' and task <> 'average')
    group by all
)

select
    a.quantity,
    'paper' as side,
    a.scenario,
    a.model,
    a.shots,
    a.method,
    b.method as against,
    a.scenario || ', ' || a.params || coalesce(', ' || a.shots || '-shot', '') || ': ' || a.method
        || if(a.quantity = 'accuracy', ' over ', ' under ') || b.method as cell,
    case a.quantity when 'accuracy' then 100 * (a.value / b.value - 1)
        when 'perplexity' then 100 * (1 - a.value / b.value) else b.value - a.value end as value,
    case a.quantity when 'accuracy' then 100 * (a.low / b.high - 1)
        when 'perplexity' then 100 * (1 - a.high / b.low) else b.low - a.high end as low,
    case a.quantity when 'accuracy' then 100 * (a.high / b.low - 1)
        when 'perplexity' then 100 * (1 - a.low / b.high) else b.high - a.low end as high,
    100 * sqrt(a.stderr ^ 2 + b.stderr ^ 2) / b.value as stderr
from means as a
join means as b
    on a.quantity = b.quantity and a.model = b.model and a.params = b.params
    and a.shots is not distinct from b.shots and a.method <> b.method
    and (a.scenario = b.scenario
        or b.method like 'single-%' and a.method not like 'single-%' and starts_with(b.scenario, a.scenario || '-'))
order by a.quantity, cell
