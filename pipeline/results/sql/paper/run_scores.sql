-- Final perplexities and accuracies of every run that plays a part of the paper, by the paper's names, each with
-- the error from the choice of documents or items.
--
-- The task `average` is the paper's: the arithmetic mean of the domains' perplexities, the mean accuracy of the
-- mean_tasks that the paper prints of the scenario. A run on a single domain has the perplexity of that one.
with tasks as (select ours, published from published_names where kind = 'task'),

on_paper as (
    select distinct scenario as published_scenario, task from paper where metric = 'accuracy'
),

answered as (
    select p.*, t.published as task, a.task as our_task, a.shots, a.formulation, a.metric as score, a.value,
        a.stderr as error, k.task is not null as in_mean
    from played_runs as p
    join headline_accuracies as a on p.run = a.run and a.final
    join tasks as t on a.task = t.ours
    join on_paper as o on p.published_scenario = o.published_scenario and t.published = o.task
    left join mean_tasks as k on p.scenario = k.scenario and a.task = k.task
),

meant as (
    select * exclude (task, our_task, value, error, in_mean), count(*) as tasks, avg(value order by our_task) as value,
        mean_error(error, our_task) as error
    from answered
    where in_mean
    group by all
),

domains as (
    select p.*, v.domain as our_task, v.perplexity as value, v.perplexity_stderr as error
    from played_runs as p
    join validation as v on p.run = v.run and v.final and (not p.single or p.single_domain = v.domain)
)

select * exclude (single_domain)
from (
    select d.*, 'perplexity' as metric, t.published as task
    from domains as d
    join tasks as t on d.our_task = t.ours
    union all by name
    select p.*, 'perplexity' as metric, 'average' as task, a.perplexity as value, a.perplexity_stderr as error
    from played_runs as p
    join validation_averages as a on p.run = a.run and a.final
    where not p.single
    union all by name
    select * exclude (our_task), 'perplexity' as metric, 'average' as task from domains where single
    union all by name
    select * exclude (in_mean), 'accuracy' as metric from answered
    union all by name
    select *, 'accuracy' as metric, 'average' as task from meant
)
order by run, published_method, metric, task, shots
