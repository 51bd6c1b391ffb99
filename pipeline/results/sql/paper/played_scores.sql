-- Final perplexities and accuracies of the runs that play a part of the paper, by the paper's names:
-- means over seeds with their standard errors, as in method_domains and method_accuracies.
--
-- The task `average` is the paper's: the arithmetic mean of the domains' perplexities, the mean
-- accuracy of the tasks that the paper prints of the scenario. A run on a single domain has the
-- perplexity of that one. significant: ahead of the baseline by the paired test of decision 0019, over two seeds or
-- more; the test of a mean holds where it is over the same tasks.
with parts as (
    select distinct scenario, model, method, published_scenario, published_model,
        published_method, single, single_domain
    from played_runs
),

tasks as (select ours, published from published_names where kind = 'task'),

domains_tested as (
    select d.scenario, d.model, d.method, d.domain, d.seeds, d.perplexity as value,
        d.perplexity_stderr as error,
        coalesce(t.seeds >= 2 and t.perplexity_high < 0, false) as significant
    from method_domains as d
    cross join experiment as e
    left join domain_differences as t
        on d.scenario = t.scenario and d.model = t.model and d.method = t.method
        and d.domain = t.domain and t.against = e.baseline
),

averages_tested as (
    select a.scenario, a.model, a.method, a.seeds, a.perplexity as value,
        a.perplexity_stderr as error,
        coalesce(t.seeds >= 2 and t.perplexity_high < 0, false) as significant
    from method_averages as a
    cross join experiment as e
    left join method_differences as t
        on a.scenario = t.scenario and a.model = t.model and a.method = t.method
        and t.against = e.baseline
),

asked as (
    select distinct task, shots, formulation, metric from headline_accuracies
),

tests as (
    select t.* from accuracy_tests as t join experiment as e on t.against = e.baseline
),

on_paper as (
    select distinct scenario as published_scenario, task from paper where metric = 'accuracy'
),

answered as (
    select m.scenario, m.model, m.method, p.published_scenario, t.published as task,
        m.task as our_task, m.shots, m.formulation, m.metric, m.seeds, m.value, m.stderr as error,
        coalesce(s.p_holm < 0.05 and s.seeds >= 2 and s.difference > 0, false) as significant
    from method_accuracies as m
    join (select distinct scenario, model, method, published_scenario from parts) as p
        on m.scenario = p.scenario and m.model = p.model and m.method = p.method
    join asked as a
        on m.task = a.task and m.shots = a.shots and m.formulation = a.formulation
        and m.metric = a.metric
    join tasks as t on m.task = t.ours
    join on_paper as o on p.published_scenario = o.published_scenario and t.published = o.task
    left join tests as s
        on m.scenario = s.scenario and m.model = s.model and m.method = s.method
        and m.task = s.task and m.shots = s.shots and m.formulation = s.formulation
        and m.metric = s.metric
),

tested_tasks as (
    select scenario, model, method, shots, formulation, metric, count(*) as tasks
    from tests
    where task <> 'mean'
    group by all
),

meant as (
    select scenario, model, method, published_scenario, shots, formulation, metric,
        count(*) as tasks, max(seeds) as seeds, avg(value) as value,
        case when count(error) = count(*) then sqrt(sum(error ^ 2)) / count(*) end as error
    from answered
    group by all
),

means_tested as (
    select m.*,
        coalesce(
            s.p_holm < 0.05 and s.seeds >= 2 and s.difference > 0 and n.tasks = m.tasks, false
        ) as significant
    from meant as m
    left join tests as s
        on m.scenario = s.scenario and m.model = s.model and m.method = s.method
        and s.task = 'mean' and m.shots = s.shots and m.formulation = s.formulation
        and m.metric = s.metric
    left join tested_tasks as n
        on m.scenario = n.scenario and m.model = n.model and m.method = n.method
        and m.shots = n.shots and m.formulation = n.formulation and m.metric = n.metric
),

scores as (
    select p.*, 'perplexity' as metric, t.published as task, d.domain as our_task,
        cast(null as integer) as shots, d.seeds, d.value, d.error, d.significant
    from parts as p
    join domains_tested as d
        on p.scenario = d.scenario and p.model = d.model and p.method = d.method
        and (not p.single or p.single_domain = d.domain)
    join tasks as t on d.domain = t.ours
    union all
    select p.*, 'perplexity', 'average', null, null, a.seeds, a.value, a.error, a.significant
    from parts as p
    join averages_tested as a
        on p.scenario = a.scenario and p.model = a.model and p.method = a.method
    where not p.single
    union all
    select p.*, 'perplexity', 'average', null, null, d.seeds, d.value, d.error, d.significant
    from parts as p
    join domains_tested as d
        on p.scenario = d.scenario and p.model = d.model and p.method = d.method
        and p.single_domain = d.domain
    where p.single
    union all
    select p.*, 'accuracy', a.task, a.our_task, a.shots, a.seeds, a.value, a.error, a.significant
    from parts as p
    join answered as a
        on p.scenario = a.scenario and p.model = a.model and p.method = a.method
        and p.published_scenario = a.published_scenario
    union all
    select p.*, 'accuracy', 'average', null, a.shots, a.seeds, a.value, a.error, a.significant
    from parts as p
    join means_tested as a
        on p.scenario = a.scenario and p.model = a.model and p.method = a.method
        and p.published_scenario = a.published_scenario
)

select * exclude (single_domain)
from scores
order by scenario, model, method, published_method, metric, task, shots
