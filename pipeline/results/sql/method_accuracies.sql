-- Final accuracies of every method and task, in percent: means over seeds of run_accuracies.
--
-- Errors as in method_domains:  SE^2 = seed_sd^2 / seeds + mean(stderr^2); the second part is the
-- error over items, which all seeds share.
with summed as (
    select
        * exclude (run, seed, value, stderr, examples, chance),
        count(*) as seeds,
        max(examples) as examples,
        ordered_mean(value) as value,
        stddev_samp(value order by value) as seed_sd,
        sqrt(ordered_mean(stderr ^ 2)) as item_stderr,
        ordered_mean(chance) as chance
    from run_accuracies
    group by all
)

select *, both_errors(seed_sd, seeds, item_stderr) as stderr, half_width(seed_sd, seeds, item_stderr) as half
from summed
order by scenario, model, method, task, shots, formulation, metric
