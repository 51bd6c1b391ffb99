-- Numbers of one run that two tables print differently, and two runs that one table prints alike: in
-- the same scenario and size, all perplexities equal to the last digit. Settings that the text says are
-- those of one run, and the pairs of zetas that Table 7 lists.
with twice as (
    select
        a."table" || ', ' || b."table" as place,
        a.metric || coalesce(' on ' || a.task, '') || ' of ' || a.method || ', ' || a.scenario
            || ', ' || a.params || coalesce(', ' || a.shots || '-shot', '') as statement,
        a.shown as stated,
        b.shown as recomputed,
        b.low,
        b.high,
        'the first table, then the second' as comment,
        a.value = b.value as holds
    from printed as a
    join printed as b
        on a.scenario = b.scenario and a.model = b.model and a.params = b.params
        and a.method = b.method and a.metric = b.metric
        and a.task is not distinct from b.task and a.shots is not distinct from b.shots
        and len(a."table") * 100 + ascii(a."table"[-1]) < len(b."table") * 100 + ascii(b."table"[-1])
),

alike as (
    select
        a."table" as place,
        a.method || ' and ' || b.method || ' on ' || a.scenario || ', ' || a.params as statement,
        'two runs' as stated,
        count(*) filter (a.value = b.value) || ' of ' || count(*) || ' perplexities equal'
            as recomputed,
        null::double as low,
        null::double as high,
        string_agg(a.task || ' ' || a.shown, ', ' order by a.task)
            || ': a chance, or one row copied into the other' as comment,
        count(*) filter (a.value = b.value) < count(*) as holds
    from printed as a
    join printed as b
        on a."table" = b."table" and a.scenario = b.scenario and a.params = b.params
        and a.metric = b.metric and a.task = b.task and a.method < b.method
    where a.metric = 'perplexity'
    group by a."table", a.method, b.method, a.scenario, a.params
    having count(*) > 1
),

same as (
    select distinct
        s.place || ', ' || b."table" as place,
        s.metric || ' of ' || s.method || ' and of ' || s.against || ', one run, ' || s.scenario
            || ', ' || s.shots || '-shot' as statement,
        s.shown as stated,
        b.shown as recomputed,
        b.low,
        b.high,
        s.quote as comment,
        s.low <= b.high + 1e-9 and s.high >= b.low - 1e-9 as holds
    from stated as s
    join printed as b
        on s.scenario = b.scenario and s.against = b.method and s.metric = b.metric
        and s.task = b.task and s.shots = b.shots and b.model = 'gpt2-large'
    where s.quantity = 'same run'
    qualify row_number() over (partition by s.place order by len(b."table"), b."table") = 1
),

tried as (
    select '(' || array_to_string(regexp_extract_all(p.method, '=([0-9.]+)', 1), ', ') || ')' as zetas,
        contains(s.text, zetas) as listed
    from paper as p
    join paper_setup as s on s."table" = 'table7' and s.row_position = 0
    where p."table" = 'table11'
),

grids as (
    select
        'table7, table11' as place,
        'pairs of zetas in Table 11 that are among the pairs of Table 7' as statement,
        count(*) || ' of ' || count(*) as stated,
        count(*) filter (listed) || ' of ' || count(*) as recomputed,
        null::double as low,
        null::double as high,
        'not listed: ' || string_agg(zetas, ', ' order by zetas) filter (not listed) as comment,
        bool_and(listed) as holds
    from tried
)

select place, 'twice' as kind, * exclude (place) from twice
union all
select place, 'same run', * exclude (place) from same
union all
select place, 'grid', * exclude (place) from grids
union all
select place, 'alike', * exclude (place) from alike
order by place, statement, stated, comment
