-- Table 5 of the paper: the sizes of the model. Parameters follow from the shape and the vocabulary of the
-- scenario's tokenizer.
with sizes as (
    select distinct
        p.model,
        n.position,
        played_as(p.model, p.published_model, n.label) as label,
        r.tokenizer,
        r.parameters,
        json_extract(r.settings, '$.model') as shape
    from played_runs as p
    join runs as r on p.run = r.run
    join paper_names as n on n.kind = 'model' and p.published_model = n.name
),

named as (
    select model, position, label, any_value(shape) as shape from sizes group by all
),

vocabularies as (
    select distinct tokenizer, vocabulary from corpora
),

cells as (
    select s.model, s.position, s.label, row_number() over (
            partition by s.label order by v.vocabulary
        ) as column_position,
        'parameters with the tokenizer ' || s.tokenizer || ', ' || v.vocabulary || ' pieces'
            as column_label, s.parameters as value
    from sizes as s
    join vocabularies as v on s.tokenizer = v.tokenizer
    union all
    select model, position, label, 100, 'layers',
        cast(json_extract(shape, '$.layers') as integer)
    from named
    union all
    select model, position, label, 101, 'attention heads',
        cast(json_extract(shape, '$.heads') as integer)
    from named
    union all
    select model, position, label, 102, 'attention head dim',
        cast(json_extract(shape, '$.head_width') as integer)
    from named
    union all
    select model, position, label, 103, 'hidden dim',
        cast(json_extract(shape, '$.width') as integer)
    from named
)

select
    'table5' as "table",
    cast(null as text) as scenario,
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
select * from printed_setup where "table" = 'table5'
order by block, section, row_position, row_label, column_position
