-- Every run that plays a part of the paper, once for each part, with the paper's names of it.
--
-- A run on a single domain plays the paper's scenario of that domain, also where ours has more:
-- it trains on one of them and is shown on that one.
with alone as (
    select distinct method, scenario from paper where method like 'single-%'
)

select
    r.run,
    r.scenario,
    r.model,
    r.method,
    r.seed,
    coalesce(a.scenario, s.published) as published_scenario,
    m.published as published_model,
    k.published as published_method,
    json_extract_string(r.settings, '$.rule') = 'single' as single,
    json_extract_string(r.settings, '$.method.domain') as single_domain
from runs as r
join published_names as s on s.kind = 'scenario' and r.scenario = s.ours
join published_names as m on m.kind = 'model' and r.model = m.ours
join published_names as k on k.kind = 'method' and r.method = k.ours
left join alone as a on k.published = a.method
order by r.run, k.published
