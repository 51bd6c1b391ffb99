-- Table 3 of the paper: how much training text there is of each language. Ours counts what was packed, the
-- paper's the whole of mC4 in billions of tokens. "X as Y" is ours in the place of the paper's Y.
with sizes as (
    select * from played_corpora where family = 'mc4'
),

cells as (
    select scenario, tokenizer, position, label, 0 as column_position,
        'tokens' as column_label, cast(tokens as double) as value, 0 as decimals, null as text
    from sizes
    union all
    select scenario, tokenizer, position, label, 1, 'documents', documents, 0, null from sizes
    union all
    select scenario, tokenizer, position, label, 2, 'bytes', bytes, 0, null from sizes
    union all
    select scenario, tokenizer, position, label, 9, 'licence', null, 0, licence from sizes
)

select
    'table3' as "table",
    scenario,
    cast(null as text) as model,
    'training text under the tokenizer ' || tokenizer as section,
    'method' as kind,
    position as row_position,
    label as row_label,
    column_position,
    column_label,
    cast(null as text) as unit,
    value,
    cast(null as double) as error,
    decimals,
    cast(null as text) as better,
    text,
    0 as block
from cells
union all by name
select * from printed_setup where "table" = 'table3'
order by block, section, row_position, row_label, column_position
