-- The paper's Figure 8: the sampling weight of each of three languages while the large model trains with
-- a method of the PiKE family, beside Mix: means over seeds; a band reaches from the lowest seed to the highest.
select
    w.scenario,
    w.model,
    w.method,
    w.domain_position as panel_position,
    w.domain as panel,
    'w_' || w.domain as title,
    'step' as x_label,
    'sampling weight' as y_label,
    w.method as key,
    line_position(w.method, e.baseline, w.method_position) as key_position,
    w.step,
    w.weight as value,
    w.low,
    w.high,
    w.seeds,
    0.0 as bottom
from figure_weights as w
cross join experiment as e
where (w.scenario, w.model, w.method) in (
    select (scenario, model, method)
    from played_parts
    where published_scenario = 'mc4-en-hi-de' and published_model = 'gpt2-large'
        and (published_method = 'mix' or contains(published_method, 'pike'))
)
order by w.scenario, w.model, panel_position, panel, key_position, key, w.step
