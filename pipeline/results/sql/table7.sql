-- Table 7 of the paper: PiKE's hyperparameters, from the settings that its runs were made with. A pair
-- that a grid chose is given as such.
with pikes as (
    select
        r.run,
        r.scenario,
        json_merge_patch(f.settings, r.settings -> '$.method') as m,
        c.chosen as pair,
        c.* exclude (run, chosen)
    from runs as r
    left join chosen_settings as c using (run)
    join defaults as f on f.kind = 'pike'
    where json_extract_string(r.settings, '$.rule') = 'pike'
        and r.scenario in (select ours from published_names where kind = 'scenario')
),

estimates as (
    select run, step, sum(rows) as rows from gradient_statistics group by run, step
),

cells as (
    select p.scenario, c.*
    from pikes as p
    cross join lateral (values
        (if(pair is null, 0, 0.5), '(zeta1, zeta2)' || if(pair is null, '', ' that the grid chose'),
            format('({}, {})', coalesce(pair, m) ->> '$.zeta1', coalesce(pair, m) ->> '$.zeta2')),
        (0.7, 'the next best pair, and its loss above that of the chosen one (nats, standard error, seeds)',
            format('({}, {}): {:.4f}', next_settings ->> '$.zeta1', next_settings ->> '$.zeta2', next_difference)
                || coalesce(format(' ± {:.4f}', next_stderr), '') || format(', {}', next_seeds)),
        (1, 'check interval T_0', format('{:,}', cast(m ->> '$.every' as bigint))),
        (3, 'estimate of the norm',
            coalesce(m ->> '$.norm', 'that of the preset ' || (m ->> '$.preset'))),
        (4, 'first update at step', (
            select cast(min(e.step) as text) from estimates as e where e.run = p.run
        ))
    ) as c (row_position, row_label, text)
    union all
    select p.scenario, 2, 'batch size for estimation',
        min(e.rows) || if(min(e.rows) < max(e.rows), ' to ' || max(e.rows), '')
    from pikes as p
    join estimates as e using (run)
    group by p.scenario
)

select
    'table7' as paper_table,
    'PiKE as it was run' as section,
    'method' as kind,
    c.row_position,
    c.row_label,
    s.position as column_position,
    s.scenario as column_label,
    0 as decimals,
    array_to_string(list_sort(list(distinct c.text)), ', ') as text,
    0 as block
from cells as c
join scenarios as s using (scenario)
where c.text is not null
group by all
union all by name
select * from printed_setup where paper_table = 'table7'
order by block, section, row_position, row_label, column_position
