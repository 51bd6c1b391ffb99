-- Tables 3 and 4 as cells: the training text of every domain that plays one of the paper's, of GLaM's also
-- the weights that our runs of the methods GLaM and DoReMi draw by, and what the paper prints below.
--
-- Weights are shown as they are given, or found by other runs, and divided by their sum: with these a
-- run draws. They are means over sizes and seeds: found ones may differ between them.
--
-- A domain stands once for each tokenizer, under the first scenario that reads it.
with read as (
    select distinct
        r.tokenizer,
        d.domain,
        first_value(d.scenario) over first as scenario,
        split_part(first_value(s.published) over first, '-', 1) as family
    from domains as d
    join runs as r using (scenario)
    join published_names as s on s.kind = 'scenario' and d.scenario = s.ours
    join scenarios as o using (scenario)
    window first as (partition by r.tokenizer, d.domain order by o.position, s.published)
),

sizes as (
    select
        if(r.family = 'mc4', 'table3', 'table4') as paper_table,
        r.scenario,
        r.tokenizer,
        r.domain,
        t.published,
        n.position,
        played_as(r.domain, t.published, n.label) as label,
        c.documents,
        c.tokens,
        c.bytes,
        cast(e.config ->> ('$.sources."' || r.domain || '".bytes') as bigint) as limit_bytes,
        c.licence
    from read as r
    join published_names as t on t.kind = 'task' and r.domain = t.ours
    join paper_names as n on n.kind = 'task' and t.published = n.name
    join corpora as c on r.tokenizer = c.tokenizer and r.domain = c.source and c.split = 'train'
    cross join experiment as e
    where r.family in ('mc4', 'glam')
),

given as (
    select p.run, d.domain, p.scenario, k.label as method, k.position as place,
        cast(coalesce(
            r.settings ->> ('$.method.weights_by_domain."' || d.domain || '"'),
            l.facts ->> ('$.weights_by_domain."' || d.domain || '"')
        ) as double) as weight
    from played_runs as p
    join runs as r using (run)
    join domains as d on r.scenario = d.scenario
    join paper_names as k on k.kind = 'method' and p.published_method = k.name
    left join lineage as l on l.artifact = 'mixture/' || r.mixture
    where p.published_scenario = 'glam' and p.published_method in ('glam', 'doremi')
),

shares as (
    select *, weight / sum(weight order by weight) over (partition by run) as share from given
),

chosen as (
    select domain, method, place, ordered_mean(weight) as weight, ordered_mean(share) as share
    from shares
    where weight is not null
    group by all
),

cells as (
    select s.paper_table, s.scenario, s.tokenizer, s.position, s.label, c.*
    from sizes as s
    left join paper_setup as l
        on s.paper_table = l.paper_table and s.published = l.row_label and l.column_label = 'language'
    cross join lateral (values
        (0, if(l.text is null, null, 'language'), null,
            if(s.domain = s.published, l.text, 'in the place of ' || l.text)),
        (1, 'tokens', s.tokens, null),
        (2, 'documents', s.documents, null),
        (3, 'bytes', s.bytes, null),
        (4, 'counted', null, coalesce(
            'packed training text of the first ' || s.limit_bytes / 1e9 || ' GB',
            'packed training text, all'
        )),
        (99, 'licence', null, s.licence)
    ) as c (column_position, column_label, value, text)
    where c.column_label is not null
    union all
    select s.paper_table, s.scenario, s.tokenizer, s.position, s.label, w.*
    from sizes as s
    join chosen as c using (domain)
    cross join lateral (values
        (10 + 2 * c.place, 'weight chosen by ' || c.method, c.weight, null),
        (11 + 2 * c.place, c.method || ': divided by their sum', c.share, null)
    ) as w (column_position, column_label, value, text)
    where s.paper_table = 'table4'
)

select
    paper_table,
    scenario,
    'training text under the tokenizer ' || tokenizer as section,
    'method' as kind,
    position as row_position,
    label as row_label,
    column_position,
    column_label,
    cast(value as double) as value,
    if(column_position between 10 and 98, 3, 0) as decimals,
    text,
    0 as block
from cells
union all by name
select * from printed_setup where paper_table in ('table3', 'table4')
order by paper_table, block, section, row_position, row_label, column_position
