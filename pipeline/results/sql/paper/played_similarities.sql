-- Cosine, noise-corrected cosine and ratio of the domains' gradients under Mix, as panels of a figure: a
-- line per pair of domains, means over seeds, their 95% interval as a band.
with pairs as (
    select
        r.published_scenario,
        r.published_model,
        f.*,
        dense_rank() over (partition by f.scenario order by f.pair_position) - 1 as key_position
    from figure_similarities as f
    join played_parts as r using (scenario, model, method)
    where r.published_method = 'mix'
)

select
    p.published_scenario,
    p.published_model,
    p.scenario,
    p.model,
    p.method,
    c.panel_position,
    c.panel,
    p.scenario || ': ' || p.method as title,
    'step' as x_label,
    c.y_label,
    p.pair as key,
    p.key_position,
    p.step,
    p.seeds,
    c.value,
    c.value - c.half as low,
    c.value + c.half as high,
    '' as reference_label,
    0.0 as reference,
    cast(-c.extent as double) as bottom,
    cast(c.extent as double) as top
from pairs as p
cross join lateral (values
    (0, 'cosine', 'cosine of gradients', p.cosine, p.cosine_half, 1.05),
    (1, 'cosine-corrected', 'cosine, noise taken out', p.cosine_corrected,
        p.cosine_corrected_half, 1.05),
    (2, 'ratio', 'ratio', p.ratio, p.ratio_half, 0.525)
) as c (panel_position, panel, y_label, value, half, extent)
order by p.scenario, p.model, c.panel_position, p.key_position, p.pair, p.step
