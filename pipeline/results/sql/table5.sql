-- Table 5 of the paper: the sizes of the model. Parameters follow from the shape and the vocabulary of the
-- scenario's tokenizer.
with sizes as (
    select distinct
        p.model,
        n.position,
        played_as(p.model, p.published_model, n.label) as label,
        r.tokenizer,
        c.vocabulary,
        r.parameters,
        json_extract(r.settings, '$.model') as shape
    from played_runs as p
    join runs as r using (run)
    join corpora as c using (tokenizer)
    join paper_names as n on n.kind = 'model' and p.published_model = n.name
),

cells as (
    select model, position, label,
        row_number() over (partition by label order by vocabulary) as column_position,
        'parameters with the tokenizer ' || tokenizer || ', ' || vocabulary || ' pieces'
            as column_label, parameters as value
    from sizes
    union
    select s.model, s.position, s.label, c.* exclude (setting),
        cast(json_extract(s.shape, '$.' || c.setting) as integer)
    from sizes as s
    cross join (values
        (100, 'layers', 'layers'), (101, 'attention heads', 'heads'),
        (102, 'attention head dim', 'head_width'), (103, 'hidden dim', 'width')
    ) as c (column_position, column_label, setting)
)

select
    'table5' as paper_table,
    model,
    'models of the runs' as section,
    'method' as kind,
    position as row_position,
    label as row_label,
    column_position,
    column_label,
    cast(value as double) as value,
    0 as decimals,
    0 as block
from cells
union all by name
select * from printed_setup where paper_table = 'table5'
order by block, section, row_position, row_label, column_position
