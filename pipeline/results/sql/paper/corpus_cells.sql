-- Tables 3 and 4 as cells: the training text of every domain that plays one of the paper's, of GLaM's also
-- the weights that our runs of the methods GLaM and DoReMi drew by, and what the paper prints below.
--
-- Weights are those of the last step, as means over sizes and seeds: found ones may differ between them.
with sizes as (
    select *, case family when 'mc4' then 'table3' else 'table4' end as "table"
    from played_corpora
    where family in ('mc4', 'glam')
),

last as (select run, max(step) as step from weights group by run),

chosen as (
    select w.domain, p.scenario, k.label as method, k.position as place, avg(w.weight) as weight
    from played_runs as p
    join weights as w on p.run = w.run
    join last as l on w.run = l.run and w.step = l.step
    join paper_names as k on k.kind = 'method' and p.published_method = k.name
    where p.published_scenario = 'glam' and p.published_method in ('glam', 'doremi')
    group by all
),

cells as (
    select "table", scenario, tokenizer, position, label, 0 as column_position,
        'tokens' as column_label, cast(tokens as double) as value, 0 as decimals, null as text
    from sizes
    union all
    select "table", scenario, tokenizer, position, label, 1, 'documents', documents, 0, null
    from sizes
    union all
    select "table", scenario, tokenizer, position, label, 2, 'bytes', bytes, 0, null from sizes
    union all
    select s."table", s.scenario, s.tokenizer, s.position, s.label, 3 + c.place,
        'weight chosen by ' || c.method, c.weight, 3, null
    from sizes as s
    join chosen as c on s.domain = c.domain
    where s."table" = 'table4'
    union all
    select "table", scenario, tokenizer, position, label, 99, 'licence', null, 0, licence
    from sizes
)

select
    "table",
    scenario,
    cast(null as text) as model,
    'training text under the tokenizer ' || tokenizer as section,
    'method' as kind,
    position as row_position,
    label as row_label,
    column_position,
    column_label,
    value,
    decimals,
    text,
    0 as block
from cells
union all by name
select * from printed_setup where "table" in ('table3', 'table4')
order by "table", block, section, row_position, row_label, column_position
