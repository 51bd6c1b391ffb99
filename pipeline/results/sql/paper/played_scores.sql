-- Final perplexities and accuracies of the runs that play a part of the paper, by the paper's names:
-- means over seeds with their standard errors, as in method_domains and method_accuracies.
--
-- The task `average` is the paper's: the arithmetic mean of the domains' perplexities, the mean
-- accuracy of the mean_tasks that the paper prints of the scenario. A run on a single domain has the
-- perplexity of that one. significant: ahead of the baseline by the paired test of decision 0019, over two seeds or
-- more; the test of a mean holds where it is over the same tasks.
with tasks as (select ours, published from published_names where kind = 'task'),

asked as (
    select distinct task, shots, formulation, metric from headline_accuracies
),

on_paper as (
    select distinct scenario as published_scenario, task from paper where metric = 'accuracy'
),

answered as (
    select m.scenario, m.model, m.method, p.published_scenario, t.published as task,
        m.task as our_task, m.shots, m.formulation, m.metric, m.seeds, m.value, m.stderr as error,
        coalesce(s.significant, false) as significant, k.task is not null as in_mean
    from method_accuracies as m
    join (select distinct scenario, model, method, published_scenario from played_parts) as p
        using (scenario, model, method)
    join asked as a using (task, shots, formulation, metric)
    join tasks as t on m.task = t.ours
    join on_paper as o on p.published_scenario = o.published_scenario and t.published = o.task
    left join baseline_tests as s using (scenario, model, method, task, shots, formulation, metric)
    left join mean_tasks as k using (scenario, task)
),

tested_tasks as (
    select scenario, count(*) as tasks from mean_tasks group by scenario
),

meant as (
    select scenario, model, method, published_scenario, shots, formulation, metric,
        count(*) as tasks, max(seeds) as seeds, avg(value order by task) as value,
        mean_error(error, task) as error
    from answered
    where in_mean
    group by all
),

means_tested as (
    select m.*, coalesce(s.significant and n.tasks = m.tasks, false) as significant
    from meant as m
    left join baseline_tests as s
        on m.scenario = s.scenario and m.model = s.model and m.method = s.method
        and s.task = 'mean' and m.shots = s.shots and m.formulation = s.formulation
        and m.metric = s.metric
    join tested_tasks as n on m.scenario = n.scenario
),

domains as (
    select p.*, d.domain, d.seeds, d.perplexity as value, d.perplexity_stderr as error,
        d.significant
    from played_parts as p
    join domains_tested as d
        on p.scenario = d.scenario and p.model = d.model and p.method = d.method
        and (not p.single or p.single_domain = d.domain)
),

scores as (
    select d.* exclude (domain, seeds, value, error, significant), 'perplexity' as metric,
        t.published as task, d.domain as our_task, cast(null as integer) as shots, d.seeds,
        d.value, d.error, d.significant
    from domains as d
    join tasks as t on d.domain = t.ours
    union all
    select p.*, 'perplexity', 'average', null, null, a.seeds, a.perplexity, a.perplexity_stderr,
        a.perplexity_significant
    from played_parts as p
    join averages_tested as a using (scenario, model, method)
    where not p.single
    union all
    select * exclude (domain, seeds, value, error, significant), 'perplexity', 'average', null,
        null, seeds, value, error, significant
    from domains
    where single
    union all
    select p.*, 'accuracy', a.task, a.our_task, a.shots, a.seeds, a.value, a.error, a.significant
    from played_parts as p
    join (
        select * exclude (in_mean) from answered
        union all by name
        select *, 'average' as task from means_tested
    ) as a
        using (scenario, model, method, published_scenario)
)

select * exclude (single_domain)
from scores
order by scenario, model, method, published_method, metric, task, shots
