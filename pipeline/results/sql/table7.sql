-- Table 7 of the paper: PiKE's hyperparameters, from the settings that its runs were made with. A pair
-- that a grid chose is given as such.
with pikes as (
    select
        r.scenario,
        s.position,
        json_extract(r.settings, '$.method') as m,
        f.settings as d,
        json_extract(l.facts, '$.chosen') as pair,
        r.run
    from runs as r
    left join lineage as l on l.artifact = 'mixture/' || r.mixture
    join scenarios as s on r.scenario = s.scenario
    join defaults as f on f.kind = 'pike'
    where json_extract_string(r.settings, '$.rule') = 'pike'
        and r.scenario in (select ours from published_names where kind = 'scenario')
),

estimates as (
    select run, step, sum(rows) as rows, min(step) over (partition by run) as first
    from gradient_statistics
    group by run, step
),

settings as (
    select scenario, position, 0 as row_position, '(zeta1, zeta2)' as row_label,
        '(' || (m ->> '$.zeta1') || ', ' || (m ->> '$.zeta2') || ')' as text
    from pikes
    where pair is null
    union all
    select scenario, position, 0.5, '(zeta1, zeta2) that the grid chose',
        '(' || (pair ->> '$.zeta1') || ', ' || (pair ->> '$.zeta2') || ')'
    from pikes
    where pair is not null
    union all
    select scenario, position, 1, 'check interval T_0',
        format('{:,}', cast(coalesce(m ->> '$.every', d ->> '$.every') as bigint))
    from pikes
    union all
    select p.scenario, p.position, 2, 'batch size for estimation',
        case when min(e.rows) = max(e.rows) then cast(min(e.rows) as text)
            else min(e.rows) || ' to ' || max(e.rows) end
    from pikes as p
    join estimates as e on p.run = e.run
    group by p.scenario, p.position
    union all
    select scenario, position, 3, 'estimate of the norm',
        coalesce(
            m ->> '$.norm',
            'that of the preset ' || coalesce(m ->> '$.preset', d ->> '$.preset')
        )
    from pikes
    union all
    select p.scenario, p.position, 4, 'first update at step', cast(min(e.first) as text)
    from pikes as p
    join estimates as e on p.run = e.run
    group by p.run, p.scenario, p.position
)

select
    'table7' as "table",
    cast(null as text) as scenario,
    cast(null as text) as model,
    'PiKE as it was run' as section,
    'method' as kind,
    row_position,
    row_label,
    position as column_position,
    settings.scenario as column_label,
    0 as decimals,
    array_to_string(list_sort(list(distinct text)), ', ') as text,
    0 as block
from settings
group by row_position, row_label, position, settings.scenario
union all by name
select * from printed_setup where "table" = 'table7'
order by block, section, row_position, row_label, column_position
