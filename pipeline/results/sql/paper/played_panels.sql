-- played_curves as panels of a figure: of each quantity a panel per scenario and size, a line per method, the
-- 95% interval over seeds and items as a band, and the baseline's last accuracy as a dashed line.
with ends as (
    select scenario, model, arg_max(value, step order by value) as value
    from played_curves as c
    join experiment as e on c.method = e.baseline
    where quantity = 'accuracy'
    group by all
)

select
    c.published_scenario,
    c.published_model,
    c.published_method,
    c.scenario,
    c.model,
    c.method,
    0 as panel_position,
    c.quantity as panel,
    panel_title(c.scenario, c.published_scenario, n.label, e.config) as title,
    'step' as x_label,
    if(c.quantity = 'accuracy', 'mean accuracy (%), ' || c.shots || '-shot', 'mean perplexity')
        as y_label,
    c.method as key,
    line_position(c.method, e.baseline, m.position) as key_position,
    c.step,
    c.seeds,
    c.value,
    case when max(c.seeds) over line > 1 then c.low end as low,
    case when max(c.seeds) over line > 1 then c.high end as high,
    if(c.quantity = 'accuracy', 'baseline at its end', null) as reference_label,
    b.value as reference,
    c.shots,
    c.formulation,
    c.metric
from played_curves as c
cross join experiment as e
join methods as m using (method)
join scenarios as s using (scenario)
join paper_names as n on n.kind = 'scenario' and c.published_scenario = n.name
left join ends as b on c.scenario = b.scenario and c.model = b.model and c.quantity = 'accuracy'
window line as (partition by c.quantity, c.scenario, c.model, c.method, c.published_method)
order by s.position, c.scenario, c.model, m.position, c.method, c.published_method, c.quantity, c.step
