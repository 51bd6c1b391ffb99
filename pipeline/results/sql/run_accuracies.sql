-- The final accuracies of every run and task, in percent. The task `mean` is the mean over mean_tasks: one model
-- answers all tasks, so that its seeds' spread is not that of tasks by themselves.
--
-- chance is what picking a candidate at random gives: the mean of 1 / candidates over the items.
with final as (
    select run, max(step) as step from accuracies group by run
),

chances as (
    select
        c.run,
        c.task,
        c.shots,
        c.formulation,
        100 * ordered_mean(1 / len(c.sum_log_likelihood)) as chance
    from choices as c
    join final as f using (run, step)
    group by all
),

answered as (
    select r.scenario, r.model, r.method, r.seed, a.* exclude (step), c.chance
    from accuracies as a
    join final as f using (run, step)
    join runs as r using (run)
    left join chances as c using (run, task, shots, formulation)
)

select * from answered
union all by name
select scenario, model, method, seed, run, 'mean' as task, shots, formulation, metric, avg(value order by task) as value,
    mean_error(stderr, task) as stderr,
    mean_of_all(chance, task) as chance
from answered
join mean_tasks using (scenario, task)
group by all
order by run, task, shots, formulation, metric
