-- Runs of each side, and where settings, code, machines and corpora of the common ones differ.
with sides as (
    select 1 as side, * from first.runs
    union all by name
    select 2 as side, * from second.runs
),

facts as (
    select side, run, steps::text as steps, tokens::text as tokens,
        parameters::text as parameters, tokenizer, device, code_fingerprint, code_commit,
        data_fingerprint, weights_sha256
    from sides
),

-- Leaves of the settings by their path, lists whole.
said as (
    select side, run, 'setting' as kind, t.fullkey[3:] as quantity, t.value::text as value
    from sides, json_tree(settings) as t
    where t.type <> 'OBJECT' and not contains(t.path, '[')
    union all
    select side, run, 'fact', quantity, value
    from (unpivot facts on columns(* exclude (side, run)) into name quantity value value)
),

found as (
    select 0 as place, 'run' as kind, run as name, '' as quantity, null as first,
        null as second,
        case min(side) + max(side) when 2 then 'first only' when 3 then 'in both'
            else 'second only' end as verdict
    from sides
    group by run
    union all
    select 1, kind, run, quantity, max(value) filter (side = 1) as first,
        max(value) filter (side = 2) as second, 'differs'
    from said
    where run in (select run from common)
    group by kind, run, quantity
    having first is distinct from second
    union all
    select 2, 'corpus', tokenizer || '/' || source, split || ' tokens', a.tokens::text,
        b.tokens::text, 'other text'
    from first.corpora as a
    join second.corpora as b using (tokenizer, source, split)
    where a.fingerprint is distinct from b.fingerprint
)

select * exclude (place) from found order by place, name, kind desc, quantity
