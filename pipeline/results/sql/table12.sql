-- Table 12 of the paper: how often PiKE's statistics are estimated before each update: once, or as the mean of
-- several estimates.
-- Accuracy in percent, higher is better, and mean perplexity below; means over seeds, ± one standard error.
-- In italics the best: no test. Below in bold what the paper prints so.
with scores as (
    select p.*, n.position as column_position, n.label || case n.label when '1' then ' estimate' else ' estimates' end as column_label,
        'scenario ' || p.scenario || ', ' || p.model || case
            when p.metric = 'accuracy' then ', ' || p.shots || '-shot' else '' end as place
    from played_scores as p
    join paper_names as n on n.kind = 'method' and p.published_method = n.name
    where p.published_method like 'pike-estimates=%' and p.task = 'average'
        and p.published_scenario = 'glam' and p.published_model = 'gpt2-large'
),

asked as (
    select scenario, model, case when count(*) filter (shots = 7) > 0 then 7 else max(shots) end
        as shots
    from scores
    where metric = 'accuracy'
    group by all
),

shown as (
    select s.*, case when y.yes then p.value end as published
    from scores as s
    join comparable as y on s.scenario = y.scenario
    left join asked as a on s.scenario = a.scenario and s.model = a.model
    left join paper as p
        on p."table" = 'table12' and s.published_method = p.method and s.metric = p.metric
        and s.shots = p.shots
    where s.metric = 'perplexity' or s.shots = a.shots
),

theirs as (
    select n.position as column_position,
        n.label || case n.label when '1' then ' estimate' else ' estimates' end as column_label,
        p.value, p.shots,
        p.bold
    from paper as p
    join paper_names as n on n.kind = 'method' and p.method = n.name
    where p."table" = 'table12' and not exists (from shown where published is not null)
)

select
    scenario, model, method, scenario || ' / ' || model as section, 'method' as kind,
    case when metric = 'accuracy' then 0 else 1 end as row_position,
    case when metric = 'accuracy' then 'mean accuracy, ' || shots || '-shot (%)'
        else 'mean perplexity' end as row_label,
    column_position, column_label, cast(null as text) as unit, value, error,
    case when metric = 'accuracy' then 1 else 2 end as decimals, cast(null as text) as better,
    value = case when metric = 'accuracy' then max(value) over same else min(value) over same end
        and count(*) over same > 1 as best,
    published, 0 as block
from shown
window same as (partition by scenario, model, metric)
union all by name
select distinct
    scenario, model, method, scenario || ' / ' || model as section, 'method' as kind,
    2 as row_position, 'seeds' as row_label, column_position, column_label,
    cast(null as text) as unit, seeds as value, cast(null as double) as error, 0 as decimals,
    cast(null as text) as better, false as best, cast(null as double) as published, 0 as block
from shown
union all by name
select
    cast(null as text) as scenario, cast(null as text) as model, cast(null as text) as method,
    'As printed' as section, 'method' as kind, 0 as row_position,
    'mean accuracy, ' || shots || '-shot (%)' as row_label, column_position, column_label,
    cast(null as text) as unit, value, cast(null as double) as error, 1 as decimals,
    cast(null as text) as better, bold, cast(null as double) as published, 1 as block
from theirs
order by block, section, row_position, column_position
