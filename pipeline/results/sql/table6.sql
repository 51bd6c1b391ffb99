-- Table 6 of the paper: the training recipe, from the settings that the runs were made with. Where runs of a
-- scenario differ, all values are given.
with recipes as (
    select r.scenario, json_merge_patch(f.settings, r.settings -> '$.training') as t
    from played_runs as p
    join runs as r using (run)
    join defaults as f on f.kind = 'training'
)

select
    'table6' as paper_table,
    'recipes of the runs' as section,
    'method' as kind,
    c.row_position,
    c.row_label,
    s.position as column_position,
    s.scenario as column_label,
    0 as decimals,
    array_to_string(list_sort(list(distinct c.text)), '; ') as text,
    0 as block
from recipes as r
join scenarios as s using (scenario)
cross join lateral (values
    (0, 'optimizer', format('AdamW (beta1 = {}, beta2 = {})', t ->> '$.beta1', t ->> '$.beta2')),
    (1, 'initial and final learning rate', array_to_string(list_distinct(
        [t ->> '$.initial_learning_rate', t ->> '$.final_learning_rate']
    ), ' and ')),
    (2, 'peak learning rate', t ->> '$.peak_learning_rate'),
    (3, 'weight decay', t ->> '$.weight_decay'),
    (4, 'batch size', t ->> '$.rows'),
    (5, 'context length', t ->> '$.length'),
    (6, 'gradient clipping norm', t ->> '$.clip_norm'),
    (7, 'training steps', format('{:,}', cast(t ->> '$.steps' as bigint))),
    (8, 'warm-up steps', format('{:,}', cast(t ->> '$.warmup_steps' as bigint))),
    (9, 'schedule', format('linear from {} up, then linear down to {}',
        t ->> '$.initial_learning_rate', t ->> '$.final_learning_rate'))
) as c (row_position, row_label, text)
group by all
union all by name
select * from printed_setup where paper_table = 'table6'
order by block, section, row_position, row_label, column_position
