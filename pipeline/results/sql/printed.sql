-- The published numbers as intervals: what is printed as 27.5 lay between 27.45 and 27.55 before it was
-- rounded.
--
-- stderr: the paper prints none. That of an accuracy follows from its number of items N
-- (paper_items), as 100 sqrt(p (1 - p) / N), and that of a mean over tasks from theirs; it is of one
-- run, and says nothing about other seeds. Null where N is unknown, and for perplexities.
with intervals as (
    select
        *,
        value - 0.5 * 10.0 ^ -decimals as low,
        value + 0.5 * 10.0 ^ -decimals as high,
        format('{:.' || decimals || 'f}', value) as shown
    from paper
),

tasks as (
    select p.*, sqrt(p.value * (100 - p.value) / i.items) as stderr
    from intervals as p
    left join paper_items as i on p.task = i.task and p.metric = 'accuracy'
),

means as (
    select paper_table, scenario, model, params, method, metric, shots,
        mean_error(stderr, task) as stderr
    from tasks
    where task <> 'average'
    group by all
)

select t.* exclude (stderr), if(t.task = 'average', m.stderr, t.stderr) as stderr
from tasks as t
left join means as m using (paper_table, scenario, model, params, method, metric, shots)
order by t.paper_table, t.scenario, t.model, t.params, t.method, t.metric, t.task, t.shots
