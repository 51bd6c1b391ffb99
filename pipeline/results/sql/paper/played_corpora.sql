-- The training text of every domain that plays one of the paper's, once per tokenizer: sizes, source
-- revision and licence, under the first scenario that reads it.
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
)

select
    r.scenario,
    r.family,
    r.tokenizer,
    r.domain,
    t.published,
    n.position,
    played_as(r.domain, t.published, n.label) as label,
    c.documents,
    c.tokens,
    c.bytes,
    cast(o.config ->> ('$.sources."' || r.domain || '".bytes') as bigint) as limit_bytes,
    c.licence,
    c.revision
from read as r
join published_names as t on t.kind = 'task' and r.domain = t.ours
join paper_names as n on n.kind = 'task' and t.published = n.name
join corpora as c on r.tokenizer = c.tokenizer and r.domain = c.source and c.split = 'train'
cross join experiment as o
order by r.family, r.tokenizer, n.position, r.domain
