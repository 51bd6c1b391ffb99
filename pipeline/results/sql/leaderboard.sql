-- Methods over all scenarios of a model: the mean over scenarios of the target loss minus that of the oracle
-- (regret) and of the baseline; `against` says which. Pairs are of one seed.
--
-- Each scenario weighs alike. A seed counts where the method was run on all scenarios. Over S scenarios
--     document_stderr = sqrt(sum_s SE_s^2) / S,
-- seed_sd is the standard deviation of the seeds' means, and the 95% interval is that of seed_differences: it
-- tells what other seeds and documents would give on these scenarios, and nothing about other scenarios.
-- worst: the largest difference of a scenario, mean over seeds. collapses: runs that `collapsed` names.
-- Only seeds of the oracle count: runs that serve others have another one.
with judged as (
    select r.* from runs as r join experiment as e on r.method = e.oracle
),

expected as (
    select model, count(distinct scenario) as scenarios from judged group by model
),

by_seed as (
    select
        p.model,
        p.method,
        p.against,
        p.seed,
        count(*) as scenarios,
        avg(p.nll_difference order by p.scenario) as difference,
        mean_error(p.nll_stderr, p.scenario) as stderr
    from paired_averages as p
    cross join experiment as e
    where p.against in (e.baseline, e.oracle)
        and (p.scenario, p.model, p.seed) in (select (scenario, model, seed) from judged)
    group by p.model, p.method, p.against, p.seed
),

complete as (
    select b.* from by_seed as b join expected as x using (model, scenarios)
),

summed as (
    select
        model,
        method,
        against,
        scenarios,
        count(*) as seeds,
        avg(difference) as difference,
        stddev_samp(difference) as seed_sd,
        sqrt(avg(stderr ^ 2)) as document_stderr
    from complete
    group by model, method, against, scenarios
),

by_scenario as (
    select p.scenario, p.model, p.method, p.against, avg(p.nll_difference) as difference
    from paired_averages as p
    join complete as c using (model, method, against, seed)
    group by p.scenario, p.model, p.method, p.against
),

worst as (
    select model, method, against, max(difference) as worst, arg_max(scenario, difference) as worst_scenario
    from by_scenario
    group by model, method, against
),

fallen as (
    select r.model, r.method, count(*) as collapses
    from collapsed as c
    join runs as r using (run)
    join complete as k using (model, method, seed)
    cross join experiment as e
    where k.against = e.baseline
    group by r.model, r.method
)

select
    s.*,
    both_errors(s.seed_sd, s.seeds, s.document_stderr) as stderr,
    s.difference - half_width(s.seed_sd, s.seeds, s.document_stderr) as low,
    s.difference + half_width(s.seed_sd, s.seeds, s.document_stderr) as high,
    w.worst,
    w.worst_scenario,
    coalesce(f.collapses, 0) as collapses
from summed as s
join worst as w using (model, method, against)
left join fallen as f using (model, method)
order by s.model, s.against, s.difference, s.method
