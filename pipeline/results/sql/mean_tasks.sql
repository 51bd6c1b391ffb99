-- The tasks that a scenario's mean accuracy is over, in every table, figure and test: of a scenario that plays
-- one of the paper's those that play one of its tasks, else all; without chance_tasks.
with answered as (
    select distinct r.scenario, a.task, n.ours is not null as published
    from accuracies as a
    join runs as r using (run)
    left join published_names as n on n.kind = 'task' and a.task = n.ours
    where a.task not in (select task from chance_tasks)
)

select scenario, task
from answered
qualify published or not bool_or(published) over (partition by scenario)
order by scenario, task
