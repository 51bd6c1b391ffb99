-- Runs whose numbers are doubtful, and how tables and figures mark them: collapsed (see there), unmoved (in
-- the whole run the method mixed as its initial weights do; a warning on the way, before weights moved,
-- does not count). runs: how many of the method's have the mark, of how many.
with trained as (select scenario, model, method, count(*) as of_runs from runs group by all)

select
    r.scenario, r.model, r.method, r.seed, r.run, m.mark,
    count(*) over (partition by r.scenario, r.model, r.method, m.mark) as runs, t.of_runs
from (
    select run, 'collapsed' as mark from collapsed
    union
    select a.run, 'unmoved'
    from alarms as a
    join runs as r using (run)
    where a.kind = 'never-moved' and a.step + 1 = r.steps
) as m
join runs as r using (run)
join trained as t using (scenario, model, method)
order by r.scenario, r.model, r.method, r.seed, m.mark
