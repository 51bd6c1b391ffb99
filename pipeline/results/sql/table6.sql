-- Table 6 of the paper: the training recipe, from the settings that the runs were made with. Where runs of a
-- scenario differ, all values are given.
with recipes as (
    select
        r.scenario,
        s.position,
        json_extract(r.settings, '$.training') as t,
        f.settings as d
    from played_runs as p
    join runs as r on p.run = r.run
    join scenarios as s on r.scenario = s.scenario
    join defaults as f on f.kind = 'training'
),

settings as (
    select scenario, position, 0 as row_position, 'optimizer' as row_label,
        'AdamW (beta1 = ' || (coalesce(t ->> '$.beta1', d ->> '$.beta1')) || ', beta2 = ' || (coalesce(t ->> '$.beta2', d ->> '$.beta2')) || ')' as text
    from recipes
    union all
    select scenario, position, 1, 'initial and final learning rate',
        (t ->> '$.initial_learning_rate') || case
            when t ->> '$.initial_learning_rate' <> t ->> '$.final_learning_rate'
                then ' and ' || (t ->> '$.final_learning_rate') else '' end
    from recipes
    union all
    select scenario, position, 2, 'peak learning rate', t ->> '$.peak_learning_rate' from recipes
    union all
    select scenario, position, 3, 'weight decay', coalesce(t ->> '$.weight_decay', d ->> '$.weight_decay') from recipes
    union all
    select scenario, position, 4, 'batch size', t ->> '$.rows' from recipes
    union all
    select scenario, position, 5, 'context length', t ->> '$.length' from recipes
    union all
    select scenario, position, 6, 'gradient clipping norm', coalesce(t ->> '$.clip_norm', d ->> '$.clip_norm') from recipes
    union all
    select scenario, position, 7, 'training steps',
        format('{:,}', cast(t ->> '$.steps' as bigint))
    from recipes
    union all
    select scenario, position, 8, 'warm-up steps',
        format('{:,}', cast(t ->> '$.warmup_steps' as bigint))
    from recipes
    union all
    select scenario, position, 9, 'schedule',
        'linear from ' || (t ->> '$.initial_learning_rate') || ' up, then linear down to '
            || (t ->> '$.final_learning_rate')
    from recipes
)

select
    'table6' as "table",
    cast(null as text) as scenario,
    cast(null as text) as model,
    'recipes of the runs' as section,
    'method' as kind,
    row_position,
    row_label,
    position as column_position,
    settings.scenario as column_label,
    0 as decimals,
    array_to_string(list_sort(list(distinct text)), '; ') as text,
    0 as block
from settings
group by row_position, row_label, position, settings.scenario
union all by name
select * from printed_setup where "table" = 'table6'
order by block, section, row_position, row_label, column_position
