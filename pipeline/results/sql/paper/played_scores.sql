-- run_scores by method: means over seeds with their standard errors, as in method_domains and method_accuracies.
--
-- significant: ahead of the baseline by the paired test of decision 0019, over three seeds or more; the test of a
-- mean holds where it is over the same tasks.
with tested_tasks as (
    select scenario, count(*) as tasks from mean_tasks group by scenario
),

summed as (
    select * exclude (run, seed, value, error), count(*) as seeds, avg(value order by seed) as value,
        stddev_samp(value order by seed) as seed_sd, sqrt(avg(error ^ 2 order by seed)) as shared
    from run_scores
    group by all
)

select
    s.* exclude (tasks, formulation, score, seed_sd, shared),
    both_errors(s.seed_sd, s.seeds, s.shared) as error,
    s.seed_sd / sqrt(s.seeds) as of_seeds,
    s.shared as of_items,
    coalesce(case
        when s.metric = 'accuracy' then t.significant and (s.task <> 'average' or n.tasks = s.tasks)
        when s.task = 'average' and not s.single then a.perplexity_significant
        else d.significant
    end, false) as significant
from summed as s
left join tested_tasks as n on s.scenario = n.scenario
left join baseline_tests as t
    on s.scenario = t.scenario and s.model = t.model and s.method = t.method and s.shots = t.shots
    and s.formulation = t.formulation and s.score = t.metric and coalesce(s.our_task, 'mean') = t.task
left join averages_tested as a
    on s.scenario = a.scenario and s.model = a.model and s.method = a.method
left join domains_tested as d
    on s.scenario = d.scenario and s.model = d.model and s.method = d.method and s.our_task = d.domain
order by s.scenario, s.model, s.method, s.published_method, s.metric, s.task, s.shots
