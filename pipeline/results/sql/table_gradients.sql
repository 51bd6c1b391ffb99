-- Gradient statistics at the first and the last step where a method asked for them, by domain:
-- the squared norm without its noise, the variance of one row's gradient, and the noise scale: the
-- number of rows at which signal and noise are equal, empty where the squared norm came out negative.
-- Means over seeds.
with firings as (
    select *,
        step = min(step) over (partition by scenario, model, method) as is_first,
        step = max(step) over (partition by scenario, model, method) as is_last
    from figure_gradients
),

ends as (
    select * from firings where is_first or is_last
),

cells as (
    select *, 0 as quantity_position, 'squared norm (unbiased)' as quantity,
        squared_norm_unbiased as value, 4 as decimals
    from ends
    union all
    select *, 1, 'variance', variance, 2 from ends
    union all
    select *, 2, 'noise scale (rows)', noise_scale, 1 from ends
)

select
    c.scenario,
    c.model,
    c.method,
    c.quantity,
    c.scenario || ' / ' || c.model || ' / ' || c.quantity as section,
    'method' as kind,
    c.method_position * 1000000000::bigint + c.step as row_position,
    c.method || ', step ' || c.step as row_label,
    c.domain_position as column_position,
    c.domain as column_label,
    c.value,
    c.decimals
from cells as c
join scenarios as s on c.scenario = s.scenario
order by
    s.position, c.model, c.quantity_position, c.method_position, c.step, c.domain_position,
    c.domain
