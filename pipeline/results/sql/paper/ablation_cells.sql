-- Tables 11 and 12 as cells: one setting of PiKE in columns, ours with the mean perplexity and the seeds
-- below, and what the paper prints under it where the two cannot be compared.
with labels as (
    select
        a.paper_table,
        n.name as published_method,
        n.position as column_position,
        if(a.paper_table = 'table11', 'zeta2 = ' || n.label,
            n.label || if(n.label = '1', ' estimate', ' estimates')) as column_label
    from paper_names as n
    join (values ('table11', 'pike-zeta1='), ('table12', 'pike-estimates=')) as a (paper_table, prefix)
        on n.kind = 'method' and starts_with(n.name, a.prefix)
),

by_run as (
    select
        p.*,
        k.paper_table,
        k.column_position,
        -- The runs' own zeta2, which is not the paper's.
        if(k.paper_table = 'table12', k.column_label, coalesce('zeta2 = ' || (
            select min(r.settings ->> '$.method.zeta2')
            from runs as r
            where r.scenario = p.scenario and r.model = p.model and r.method = p.method
        ), p.method)) as column_label,
        count(*) over (partition by k.paper_table, p.scenario, p.model, p.metric, p.shots, p.seed) as methods
    from run_scores as p
    join labels as k using (published_method)
    where p.task = 'average' and p.published_scenario = 'glam' and p.published_model = 'gpt2-large'
),

-- Over the seeds that most settings have.
scores as (
    select * exclude (run, seed, methods, value, error), count(*) as seeds, list(run order by seed) as runs,
        list(value order by seed) as run_values, avg(value order by seed) as value,
        half_over_seeds(value, error, seed) as error
    from (
        select * from by_run
        qualify methods = max(methods) over (partition by paper_table, scenario, model, metric, shots)
    )
    group by all
),

shown as (
    select s.*, if(s.metric = 'accuracy', 1, 2) as decimals, case when y.yes then p.value end as published
    from scores as s
    join comparable as y using (scenario)
    left join paper as p
        on s.paper_table = p.paper_table and s.published_method = p.method and s.metric = p.metric
        and s.shots = p.shots
    window same as (partition by s.paper_table, s.scenario, s.model, s.metric)
    -- Seven demonstrations, or the largest number that was asked.
    qualify s.metric = 'perplexity' or s.shots = coalesce(
        max(s.shots) filter (s.shots = 7) over same, max(s.shots) over same
    )
),

theirs as (
    select k.paper_table, k.column_position, k.column_label, p.value, p.shots, p.bold
    from paper as p
    join labels as k on p.paper_table = k.paper_table and p.method = k.published_method
    where p.paper_table not in (select paper_table from shown where published is not null)
)

select
    paper_table, scenario, model, method, scenario || ' / ' || model as section, 'method' as kind,
    if(metric = 'accuracy', 0, 1) as row_position,
    if(metric = 'accuracy', 'mean accuracy, ' || shots || '-shot (%)', 'mean perplexity')
        as row_label,
    column_position, column_label, value, error, decimals,
    -- No number is the best of those that are printed alike.
    round(value, decimals)
        = round(if(metric = 'accuracy', max(value) over same, min(value) over same), decimals)
        and count(*) over alike = 1 and count(*) over same > 1 as best,
    published, runs, run_values, 0 as block
from shown
window same as (partition by paper_table, scenario, model, metric),
    alike as (partition by paper_table, scenario, model, metric, round(value, decimals))
union all by name
select distinct
    paper_table, scenario, model, method, scenario || ' / ' || model as section, 'method' as kind,
    2 as row_position, 'seeds' as row_label, column_position, column_label, seeds as value,
    0 as decimals, false as best, runs, 0 as block
from shown
union all by name
select
    paper_table, 'As printed' as section, 'method' as kind, 0 as row_position,
    'mean accuracy, ' || shots || '-shot (%)' as row_label, column_position, column_label, value,
    1 as decimals, bold, 1 as block
from theirs
order by paper_table, block, section, row_position, column_position
