-- Table 8 of the paper: what PiKE's estimates of norms and variances add to the training time: means over
-- PiKE's runs of a scenario and size, with half of the 95% interval over them behind ±. Times are of the machine that
-- they were taken on; only the percentages compare with the paper's.
with measured as (
    select
        p.* exclude (method),
        max(p.seconds) over () >= 3600 as long,
        10 * z.position + s.position as row_position,
        played_as(p.model, p.published_model, z.label) || ', ' || p.scenario || ' ('
            || format('{:.3g}', r.parameters / 1e6) || 'M parameters)' as row_label
    from played_overheads as p
    join runs as r using (run)
    join scenarios as s on p.scenario = s.scenario
    join paper_names as z on z.kind = 'model' and p.published_model = z.name
)

select
    m.scenario, m.model, 'runs of PiKE' as section, 'method' as kind, m.row_position, m.row_label,
    c.column_position, c.column_label, c.unit, ordered_mean(c.value) as value,
    half_over(c.value) as error, c.decimals, 0 as block
from measured as m
cross join lateral (values
    (0, 'total training time', if(long, 'h', 's'), seconds / if(long, 3600.0, 1.0), 1),
    (1, 'overhead of PiKE', if(long, 'h', 's'), estimating / if(long, 3600.0, 1.0), 2),
    (2, 'overhead of PiKE', '%', 100 * estimating / seconds, 1)
) as c (column_position, column_label, unit, value, decimals)
group by all
union all by name
select
    scenario, model, 'runs of PiKE' as section, 'method' as kind, row_position, row_label, 9000 as column_position,
    'runs' as column_label, count(*) as value, 0 as decimals, 0 as block
from measured
group by all
union all by name
select
    'As printed' as section, 'method' as kind,
    -- As there: the smaller models first.
    cast(if(p.params like '%B', 1000, 1) * cast(regexp_extract(p.params, '[0-9.]+') as double) as integer) as row_position,
    z.label || ' (' || p.params || ', ' || p.scenario || ')' as row_label, c.column_position,
    c.column_label, c.unit, p.value, c.decimals, 1 as block
from paper as p
join paper_names as z on z.kind = 'model' and p.model = z.name
join (values
    ('train_hours', 0, 'total training time', 'h', 0),
    ('pike_overhead_hours', 1, 'overhead of PiKE', 'h', 2),
    ('pike_overhead_pct', 2, 'overhead of PiKE', '%', 1)
) as c (metric, column_position, column_label, unit, decimals) on p.metric = c.metric
where p.paper_table = 'table8'
order by block, row_position, row_label, column_position
