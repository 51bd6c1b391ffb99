-- How long the documents of each domain are in training: at 6 stand those of 64 to 127 tokens, each with
-- its end. A domain of short documents gives a row of a batch many of them, and its loss many
-- beginnings.
--
-- All runs of a scenario read the same: whichever are selected.
with read as (
    select distinct scenario, tokenizer from runs
)

select
    r.scenario,
    cast(null as text) as model,
    cast(null as text) as method,
    cast(null as integer) as seed,
    l.source as domain,
    coalesce(d.position, 1000) as domain_position,
    cast(log2(l.at_least) as integer) as power,
    l.documents / sum(l.documents) over (partition by r.scenario, l.tokenizer, l.source) as share
from document_lengths as l
join read as r using (tokenizer)
join domains as d on r.scenario = d.scenario and l.source = d.domain
join scenarios as s on r.scenario = s.scenario
where l.split = 'train'
order by s.position, r.scenario, domain_position, domain, power
