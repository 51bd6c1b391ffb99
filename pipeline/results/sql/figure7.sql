-- The paper's Figure 7: mean perplexity on held-out text of two languages with Mix, PCGrad and AdaTask,
-- the small model. Lower is better; the untrained model is left out.
select
    c.scenario,
    c.model,
    c.method,
    0 as panel_position,
    'perplexity' as panel,
    panel_title(c.scenario, c.published_scenario, n.label, e.config) as title,
    'step' as x_label,
    'mean perplexity' as y_label,
    c.method as key,
    line_position(c.method, e.baseline, m.position) as key_position,
    c.step,
    c.value,
    case when max(c.seeds) over line > 1 then c.low end as low,
    case when max(c.seeds) over line > 1 then c.high end as high,
    cast(null as text) as reference_label,
    cast(null as double) as reference,
    cast(null as double) as bottom,
    cast(null as double) as top
from played_curves as c
cross join experiment as e
join methods as m on c.method = m.method
join paper_names as n on n.kind = 'scenario' and c.published_scenario = n.name
where c.quantity = 'perplexity' and c.step > 0
    and c.published_scenario = 'mc4-en-hi' and c.published_model = 'gpt2-small'
    and c.published_method in ('mix', 'pcgrad', 'adatask')
window line as (partition by c.scenario, c.model, c.method)
order by c.scenario, c.model, m.position, c.method, c.step
