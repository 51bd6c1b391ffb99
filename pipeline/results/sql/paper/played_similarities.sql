-- Cosine, noise-corrected cosine and ratio of the domains' gradients under Mix, as panels of a figure: a
-- line per pair of domains, means over seeds, one standard error over seeds as a band.
with pairs as (
    select
        r.published_scenario,
        r.published_model,
        f.*,
        dense_rank() over (partition by f.scenario order by f.pair_position) - 1 as key_position
    from figure_similarities as f
    join played_parts as r
        on f.scenario = r.scenario and f.model = r.model and f.method = r.method
    where r.published_method = 'mix'
),

quantities as (
    select *, 0 as panel_position, 'cosine' as panel, 'cosine of gradients' as y_label,
        cosine as value, cosine_error as error, 1.05 as extent
    from pairs
    union all
    select *, 1, 'cosine-corrected', 'cosine, noise taken out', cosine_corrected,
        cosine_corrected_error, 1.05
    from pairs
    union all
    select *, 2, 'ratio', 'ratio', ratio, ratio_error, 0.525 from pairs
)

select
    published_scenario,
    published_model,
    scenario,
    model,
    method,
    panel_position,
    panel,
    scenario || ': ' || method as title,
    'step' as x_label,
    y_label,
    pair as key,
    key_position,
    step,
    value,
    value - error as low,
    value + error as high,
    '' as reference_label,
    0.0 as reference,
    -extent as bottom,
    extent as top
from quantities
order by scenario, model, panel_position, key_position, key, step
