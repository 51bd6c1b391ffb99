-- Whether a scenario that plays one of the paper's is comparable with it: the experiment says that its
-- data, models and recipes are the paper's (paper.comparable), and the scenario bears the paper's own
-- name. One that plays under another name, an open stand-in for closed data, is not.
select
    n.ours as scenario,
    coalesce(cast(json_extract_string(e.config, '$.paper.comparable') as boolean), false)
        and bool_or(n.ours = n.published) as yes
from published_names as n
cross join experiment as e
where n.kind = 'scenario'
group by n.ours, e.config
order by n.ours
