-- Numbers of one run that two tables print differently, and two runs that one table prints alike: in
-- the same scenario and size, all perplexities equal to the last digit.
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
)

select place, 'twice' as kind, * exclude (place) from twice
union all
select place, 'alike', * exclude (place) from alike
order by place, statement, stated, comment
