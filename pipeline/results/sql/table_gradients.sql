-- Gradient statistics at the first and the last step where a method asked for them, by domain:
-- the squared norm without its noise, the variance of one row's gradient, and the noise scale: the
-- number of rows at which signal and noise are equal, empty where the squared norm came out negative.
-- Means over seeds.
with firings as (
    select * from figure_gradients
    window own as (partition by scenario, model, method)
    qualify step in (min(step) over own, max(step) over own)
)

select
    f.scenario,
    f.model,
    f.method,
    c.quantity,
    f.scenario || ' / ' || f.model || ' / ' || c.quantity as section,
    'method' as kind,
    f.method_position * 1000000000::bigint + f.step as row_position,
    f.method || ', step ' || f.step as row_label,
    f.domain_position as column_position,
    f.domain as column_label,
    c.value,
    c.decimals
from firings as f
join scenarios as s using (scenario)
cross join lateral (values
    (0, 'squared norm (unbiased)', f.squared_norm_unbiased, 4),
    (1, 'variance', f.variance, 2),
    (2, 'noise scale (rows)', f.noise_scale, 1)
) as c (place, quantity, value, decimals)
order by
    s.position, f.model, c.place, f.method_position, f.step, f.domain_position, f.domain
