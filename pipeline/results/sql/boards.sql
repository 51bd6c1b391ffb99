-- Methods over the scenarios of a board: the mean over scenarios of the target loss minus another method's,
-- mean over seeds within each. The scenario is the unit of replication:
--     stderr = sd over scenarios / sqrt(scenarios),   half of the 95% interval = t(scenarios - 1) * stderr,
-- so it tells what other scenarios of the same kind would give. worst: the largest difference.
select
    board,
    model,
    method,
    against,
    count(*) as scenarios,
    min(seeds) as seeds,
    avg(difference order by scenario) as difference,
    stddev_samp(difference order by difference) / sqrt(count(*)) as stderr,
    half_of_mean(stddev_samp(difference order by difference), count(*)) as half,
    max(difference) as worst,
    arg_max(scenario, difference order by scenario) as worst_scenario
from scenario_differences
group by board, model, method, against
order by board, model, method, against
