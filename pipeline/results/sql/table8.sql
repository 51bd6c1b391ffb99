-- Table 8 of the paper: what PiKE's estimates of norms and variances add to the training time: means over
-- PiKE's runs of a scenario and size, with the standard deviation behind ±. Times are of the machine that
-- they were taken on; only the percentages compare with the paper's.
with measured as (
    select
        p.* exclude (method),
        s.position as scenario_position,
        z.position as size_position,
        played_as(p.model, p.published_model, z.label) || ', ' || p.scenario || ' (' || format('{:.3g}', r.parameters / 1e6)
            || 'M parameters)' as label
    from played_overheads as p
    join runs as r on p.run = r.run
    join scenarios as s on p.scenario = s.scenario
    join paper_names as z on z.kind = 'model' and p.published_model = z.name
),

unit as (
    select case when max(seconds) >= 3600 then 'h' else 's' end as name,
        case when max(seconds) >= 3600 then 3600.0 else 1.0 end as seconds
    from measured
),

cells as (
    select m.*, 0 as column_position, 'total training time' as column_label, u.name as unit,
        m.seconds / u.seconds as value, 1 as decimals
    from measured as m
    cross join unit as u
    union all
    select m.*, 1, 'overhead of PiKE', u.name, m.estimating / u.seconds, 2
    from measured as m
    cross join unit as u
    union all
    select *, 2, 'overhead of PiKE', '%', 100 * estimating / seconds, 1
    from measured
),

theirs as (
    select
        z.position as size_position,
        z.label || ' (' || p.params || ', ' || p.scenario || ')' as row_label,
        case p.metric when 'train_hours' then 0 when 'pike_overhead_hours' then 1 else 2 end
            as column_position,
        case p.metric when 'train_hours' then 'total training time' else 'overhead of PiKE' end
            as column_label,
        case p.metric when 'pike_overhead_pct' then '%' else 'h' end as unit,
        p.value,
        case p.metric when 'train_hours' then 0 when 'pike_overhead_hours' then 2 else 1 end
            as decimals
    from paper as p
    join paper_names as z on z.kind = 'model' and p.model = z.name
    where p."table" = 'table8'
)

select
    scenario, model, 'runs of PiKE' as section, 'method' as kind,
    10 * size_position + scenario_position as row_position, label as row_label, column_position,
    column_label, unit, avg(value) as value, stddev_samp(value) as error, decimals,
    cast(null as text) as better, 0 as block
from cells
group by all
union all by name
select
    cast(null as text) as scenario, cast(null as text) as model, 'As printed' as section,
    'method' as kind, size_position as row_position, row_label, column_position, column_label,
    unit, value, cast(null as double) as error, decimals, cast(null as text) as better, 1 as block
from theirs
order by block, row_position, row_label, column_position
