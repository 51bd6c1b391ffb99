-- Methods over all scenarios of a model: the mean over scenarios of the target loss minus that of the oracle
-- (regret) and of the baseline; `against` says which. Pairs are of one seed.
--
-- Each scenario weighs alike. Seeds are those that the oracle, the method and `against` have in all scenarios. The
-- interval and the test (loss_tests without a scenario) tell what other seeds and documents would give on these
-- scenarios, and nothing about other scenarios; a text in several of them is one document.
-- worst: the largest difference of a scenario, mean over seeds. collapses: runs that `collapsed` names.
-- Only seeds of the oracle count: runs that serve others have another one.
with judged as (
    select distinct r.scenario, r.model, r.seed
    from runs as r
    join experiment as e on r.method = e.oracle
),

worst as (
    select model, method, against, max(nll_difference) as worst, arg_max(scenario, nll_difference order by scenario) as worst_scenario
    from method_differences
    where (scenario, model) in (select (scenario, model) from judged)
    group by model, method, against
),

fallen as (
    select r.model, r.method, count(*) as collapses
    from collapsed as c
    join runs as r using (run)
    join judged using (scenario, model, seed)
    group by r.model, r.method
)

select
    t.model,
    t.method,
    t.against,
    (select count(distinct scenario) from judged as j where j.model = t.model) as scenarios,
    t.seeds,
    t.nll_difference as difference,
    t.nll_seed_sd as seed_sd,
    t.nll_document_stderr as document_stderr,
    t.nll_stderr as stderr,
    t.nll_low as low,
    t.nll_high as high,
    t.nll_p_holm as p_holm,
    w.worst,
    w.worst_scenario,
    coalesce(f.collapses, 0) as collapses
from loss_tests as t
join worst as w using (model, method, against)
left join fallen as f using (model, method)
where t.scenario is null
order by t.model, t.against, difference, t.method
