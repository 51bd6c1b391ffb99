-- The cells of the paper's tables of scores (1, 2, 9, 10, 13, 14), in its layout: ours, and beside or
-- below them the paper's.
--
-- The number of a row is its mean over all its seeds.
-- other_sign: over the seeds that the method and Mix both have, it does not differ from Mix in this direction.
-- beats: the paper's rule for underlining: PiKE or Balanced-PiKE, and better than Mix, Round-Robin and
-- Random in its column. published: the paper's value, where the scenario is comparable; where none is,
-- the paper's own rows follow in sections of their own, marked as they are printed.
with on_paper as (
    select distinct paper_table, scenario, model, params, method from paper
),

models as (
    select r.scenario, r.model, max(r.parameters) as parameters, max(r.steps) as steps,
        count(distinct v.domain) as domains
    from runs as r
    left join validation as v using (run)
    group by all
),

by_run as (
    select
        c.paper_table, p.* exclude (our_task, shots, score, formulation, tasks), c.our_task, c.printed_shots, c.shots,
        c.position as column_position, c.label as column_label,
        avg(p.value order by p.seed) over (
            partition by c.paper_table, p.scenario, p.model, p.single, c.position, p.published_method
        ) as mean
    from run_scores as p
    join score_table_columns as c
        on p.scenario = c.scenario and p.published_scenario = c.published_scenario
        and p.metric = c.metric and p.task = c.task
        and p.shots is not distinct from c.shots
    join on_paper as t
        on c.paper_table = t.paper_table and p.published_scenario = t.scenario
        and p.published_model = t.model and p.published_method = t.method
),

summed as (
    select * exclude (run, seed, value, error, mean), count(*) as seeds, list(run order by seed) as runs,
        list(value order by seed) as run_values, avg(value order by seed) as value,
        half_over_seeds(value, error, seed) as error
    from by_run
    group by all
),

-- Rows whose difference to that of Mix has another sign over the seeds that both have than between the two means
-- that are shown.
contradicted as (
    select paper_table, scenario, model, single, column_position, b.published_method
    from by_run as b
    join by_run as m using (paper_table, scenario, model, single, column_position, seed)
    where m.published_method = 'mix'
    group by all
    having sign(avg(b.value - m.value order by b.seed)) <> sign(any_value(b.mean) - any_value(m.mean))
),

cells as (
    select c.*, p.significant
    from summed as c
    join played_scores as p using (
        scenario, model, published_scenario, published_model, published_method, metric, task
    )
    where c.shots is not distinct from p.shots
),

rivals as (
    select paper_table, scenario, model, column_position, min(value) as lowest, max(value) as highest
    from cells
    where published_method in ('mix', 'round-robin', 'random')
    group by all
    having count(distinct published_method) = 3
),

marked as (
    select
        c.*,
        case when y.yes then p.value end as published,
        t.task is not null as by_chance,
        d.paper_table is not null as other_sign,
        coalesce(
            t.task is null and contains(c.published_method, 'pike')
            and case when c.metric = 'perplexity' then c.value < r.lowest
                else c.value > r.highest end,
            false
        ) as beats
    from cells as c
    join comparable as y using (scenario)
    left join chance_tasks as t on c.our_task = t.task
    left join rivals as r using (paper_table, scenario, model, column_position)
    left join contradicted as d using (paper_table, scenario, model, single, column_position, published_method)
    left join paper as p
        on c.paper_table = p.paper_table and c.published_scenario = p.scenario
        and c.published_model = p.model and c.published_method = p.method
        and c.metric = p.metric and c.task = p.task
        and p.shots is not distinct from c.printed_shots
),

ours as (
    select
        c.paper_table,
        c.scenario,
        c.model,
        c.method,
        min(n.position) over block as section_position,
        z.position as size_position,
        arg_min(c.scenario, n.position order by c.scenario) over block || ' / ' || c.model || ': '
            || case when c.single then 'one domain alone' else m.domains || ' domains' end || ', '
            || format('{:.3g}', m.parameters / 1e6) || 'M parameters, ' || m.steps || ' steps'
            || case when c.scenario = c.published_scenario and c.model = c.published_model then ''
                else ', in the place of ' || case when c.single then 'single domains'
                    else n.label end || ', ' || z.label end as section,
        k.position as row_position,
        played_as(c.method, c.published_method, k.label) as row_label,
        c.column_position,
        c.column_label,
        case when c.metric = 'perplexity' then 'ppl' else '%' end as unit,
        c.value,
        c.error,
        case when c.metric = 'accuracy' then 1 else shown_decimals('ppl', c.value, 2) end as decimals,
        case when c.single or c.by_chance then null when c.metric = 'perplexity' then 'lower'
            else 'higher' end as better,
        c.significant,
        c.beats,
        c.other_sign,
        c.published,
        c.seeds,
        c.runs,
        c.run_values
    from marked as c
    join models as m using (scenario, model)
    join paper_names as n on n.kind = 'scenario' and c.published_scenario = n.name
    join paper_names as z on z.kind = 'model' and c.published_model = z.name
    join paper_names as k on k.kind = 'method' and c.published_method = k.name
    window block as (
        partition by c.paper_table, c.model, c.single, case when not c.single then c.scenario end
    )
),

theirs as (
    select
        p.paper_table,
        n.position as section_position,
        z.position as size_position,
        'As printed, with the paper''s own bold: '
            || case when p.method like 'single-%' then 'single domains' else n.label end || ', '
            || z.label || ', ' || p.params as section,
        k.position as row_position,
        k.label as row_label,
        score_position(p.metric, p.task, p.shots, t.position) as column_position,
        score_label(p.metric, p.task, p.shots, t.label) as column_label,
        case when p.metric = 'perplexity' then 'ppl' else '%' end as unit,
        p.value,
        case when p.metric = 'perplexity' then 2 else 1 end as decimals,
        p.bold,
        p.underlined
    from paper as p
    join paper_names as n on n.kind = 'scenario' and p.scenario = n.name
    join paper_names as z on z.kind = 'model' and p.model = z.name
    join paper_names as k on k.kind = 'method' and p.method = k.name
    left join paper_names as t on t.kind = 'task' and p.task = t.name
    where p.paper_table in ('table1', 'table2', 'table9', 'table10', 'table13', 'table14')
        and p.paper_table not in (select paper_table from marked where published is not null)
)

select * exclude (seeds), 'method' as kind, false as bold, 0 as block from ours
union all by name
select distinct on (paper_table, section, row_label)
    paper_table, scenario, model, method, section_position, size_position, section, row_position,
    row_label, 'method' as kind, 9000 as column_position, 'seeds' as column_label, seeds as value, runs,
    0 as decimals, false as significant, false as beats, false as bold, 0 as block
from ours
union all by name
select * exclude (underlined), 'method' as kind, false as significant, underlined as beats, 1 as block
from theirs
order by paper_table, block, size_position, section_position, section, row_position, column_position
