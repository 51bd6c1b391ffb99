-- The columns of the paper's tables of scores (1, 2, 9, 10, 13, 14) for each of our scenarios: which
-- metric, task and number of demonstrations the paper prints there, and with how many ours was asked.
--
-- Where ours was never asked with as many, its largest number stands in for the paper's, and the
-- header says which; but not in tables 9 and 10, which are about these numbers.
-- Their order is that of the macro score_position of verdict_rules.sql. A header is made by the macro
-- score_label there, from the task's label in pipeline/paper/names.csv (the table paper_names) and the
-- name of our task that plays it.
with on_paper as (
    select distinct paper_table, scenario, metric, task, shots
    from paper
    where paper_table in ('table1', 'table2', 'table9', 'table10', 'table13', 'table14')
),

asked as (
    select scenario, published_scenario, list(distinct shots) as have, max(shots) as most
    from played_scores
    where metric = 'accuracy'
    group by all
),

ours as (
    select distinct scenario, published_scenario, metric, task, our_task
    from played_scores
)

select distinct
    p.paper_table,
    o.scenario,
    o.published_scenario,
    p.metric,
    p.task,
    o.our_task,
    p.shots as printed_shots,
    case
        when p.metric = 'perplexity' then null
        when list_contains(a.have, p.shots) then p.shots
        when p.paper_table not in ('table9', 'table10') then a.most
    end as shots,
    score_position(p.metric, p.task, p.shots, n.position) as position,
    score_label(
        p.metric, p.task, if(list_contains(a.have, p.shots), p.shots, a.most), played_as(o.our_task, p.task, n.label)
    ) as label
from on_paper as p
join ours as o
    on p.scenario = o.published_scenario and p.metric = o.metric and p.task = o.task
left join asked as a on o.scenario = a.scenario and o.published_scenario = a.published_scenario
left join paper_names as n on n.kind = 'task' and p.task = n.name
where p.metric = 'perplexity' or list_contains(a.have, p.shots)
    or p.paper_table not in ('table9', 'table10')
order by p.paper_table, o.scenario, o.published_scenario, position
