-- Where the rows of each scenario, model and method stand in tables of methods.
select distinct
    r.scenario,
    r.model,
    r.method,
    s.position as scenario_position,
    r.scenario || ' / ' || r.model as section,
    'method' as kind,
    m.position as row_position,
    r.method as row_label
from runs as r
join methods as m using (method)
join scenarios as s using (scenario)
order by scenario_position, r.scenario, r.model, row_position, r.method
