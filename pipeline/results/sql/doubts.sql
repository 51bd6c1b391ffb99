-- Runs whose numbers are doubtful, and how tables and figures mark them: collapsed (see there), unmoved (in
-- the whole run the method mixed as its initial weights do; a warning on the way, before weights moved,
-- does not count).
select r.scenario, r.model, r.method, r.seed, r.run, m.mark
from (
    select run, 'collapsed' as mark from collapsed
    union
    select a.run, 'unmoved'
    from alarms as a
    join runs as r using (run)
    where a.kind = 'never-moved' and a.step + 1 = r.steps
) as m
join runs as r using (run)
order by r.scenario, r.model, r.method, r.seed, m.mark
