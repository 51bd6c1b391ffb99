-- Final accuracies of every method and task, in percent: means over seeds.
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

summed as (
    select
        r.scenario,
        r.model,
        r.method,
        a.task,
        a.shots,
        a.formulation,
        a.metric,
        count(*) as seeds,
        max(a.examples) as examples,
        avg(a.value order by a.value) as value,
        stddev_samp(a.value order by a.value) as seed_sd,
        sqrt(avg(a.stderr ^ 2 order by a.stderr ^ 2)) as item_stderr,
        avg(c.chance order by c.chance) as chance
    from accuracies as a
    join final as f using (run, step)
    join runs as r using (run)
    left join chances as c using (run, task, shots, formulation)
    group by all
)

select *, both_errors(seed_sd, seeds, item_stderr) as stderr, half_width(seed_sd, seeds, item_stderr) as half
from summed
order by scenario, model, method, task, shots, formulation, metric
