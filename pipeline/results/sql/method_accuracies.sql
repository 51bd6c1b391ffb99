-- Final accuracies of every method and task, in percent: means over seeds. The task `mean` is the mean over mean_tasks
-- of each run, since one model answers all tasks: its seeds' spread is not that of tasks by themselves.
--
-- chance is what picking a candidate at random gives: the mean of 1 / candidates over the items.
-- Errors as in method_domains:  SE^2 = seed_sd^2 / seeds + mean(stderr^2); the second part is the
-- error over items, which all seeds share.
with final as (
    select run, max(step) as step from accuracies group by run
),

chances as (
    select
        c.run,
        c.task,
        c.shots,
        c.formulation,
        100 * avg(1 / len(c.sum_log_likelihood) order by 1 / len(c.sum_log_likelihood)) as chance
    from choices as c
    join final as f using (run, step)
    group by all
),

answered as (
    select r.scenario, r.model, r.method, a.* exclude (step), c.chance
    from accuracies as a
    join final as f using (run, step)
    join runs as r using (run)
    left join chances as c using (run, task, shots, formulation)
),

with_means as (
    select * from answered
    union all by name
    select scenario, model, method, run, 'mean' as task, shots, formulation, metric, avg(value order by task) as value,
        mean_error(stderr, task) as stderr,
        case when count(chance) = count(*) then avg(chance order by task) end as chance
    from answered
    join mean_tasks using (scenario, task)
    group by all
),

summed as (
    select
        * exclude (run, value, stderr, examples, chance),
        count(*) as seeds,
        max(examples) as examples,
        avg(value order by value) as value,
        stddev_samp(value order by value) as seed_sd,
        sqrt(avg(stderr ^ 2 order by stderr ^ 2)) as item_stderr,
        avg(chance order by chance) as chance
    from with_means
    group by all
)

select *, both_errors(seed_sd, seeds, item_stderr) as stderr, half_width(seed_sd, seeds, item_stderr) as half
from summed
order by scenario, model, method, task, shots, formulation, metric
