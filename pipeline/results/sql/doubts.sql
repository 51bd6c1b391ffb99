-- Runs whose numbers an alarm makes doubtful, and how tables mark them: collapsed (the weights spread
-- over few domains), starved (a domain had no row for a while), unmoved (in the whole run the method
-- mixed as its initial weights do; a warning on the way, before weights moved, does not count).
select distinct
    r.scenario,
    r.model,
    r.method,
    r.seed,
    r.run,
    case a.kind when 'effective-domains' then 'collapsed' when 'no-rows' then 'starved'
        else 'unmoved' end as mark
from alarms as a
join runs as r on a.run = r.run
where a.kind in ('effective-domains', 'no-rows') or a.kind = 'never-moved' and a.step + 1 = r.steps
order by r.scenario, r.model, r.method, r.seed, mark
