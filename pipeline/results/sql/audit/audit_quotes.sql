-- Numbers of the tables that the text quotes, and gains that it computes from them. A gain is relative:
-- 100 (a / b - 1) percent of the other method's mean accuracy, as the paper means it.
with quoted as (
    select
        s.place,
        'quote' as kind,
        coalesce(nullif(s.task, '') || ' ', '') || s.metric || ' of ' || s.method || ' on '
            || s.scenario || ', ' || s.params || coalesce(', ' || s.shots || '-shot', '')
            as statement,
        s.shown as stated,
        p.shown as recomputed,
        p.low,
        p.high,
        p."table" || coalesce(
            '; ' || s.shown || ' is its ' || (
                select string_agg(distinct o.task, ', ' order by o.task)
                from printed as o
                where o."table" = p."table" and o.scenario = p.scenario and o.params = p.params
                    and o.method = p.method and o.metric = p.metric and o.shots = p.shots
                    and o.value = s.value and s.value <> p.value
            ),
            ''
        ) as comment,
        s.low <= p.high + 1e-9 and s.high >= p.low - 1e-9 as holds
    from stated as s
    join printed as p
        on s.scenario = p.scenario and s.params = p.params and s.method = p.method
        and s.metric = p.metric and s.task is not distinct from p.task
        and s.shots is not distinct from p.shots
    where s.quantity = 'quote'
    -- Once, by the fullest table that has it.
    qualify row_number() over (
        partition by s.place, s.quote, s.params order by len(p."table") desc, p."table" desc
    ) = 1
),

gained as (
    select distinct
        s.place,
        'gain' as kind,
        'gain in mean accuracy of ' || s.method || ' over ' || s.against || ' on ' || s.scenario
            || ', ' || s.params || ', ' || s.shots || '-shot' as statement,
        s.shown || '%' as stated,
        format('{:.1f}%', 100 * (a.value / b.value - 1)) as recomputed,
        100 * (a.low / b.high - 1) as low,
        100 * (a.high / b.low - 1) as high,
        a.shown || ' over ' || b.shown || coalesce('; ' || (
            select string_agg(distinct o.shown || ' of ' || o.method || ' would give ' || s.shown || '%', ', ')
            from printed as o
            where o."table" = b."table" and o.scenario = b.scenario and o.params = b.params
                and o.metric = b.metric and o.task = b.task and o.shots = b.shots
                and abs(100 * (a.value / b.value - 1) - s.value) > 0.05
                and abs(100 * (o.value / b.value - 1) - s.value) <= 0.05
        ), '') as comment,
        s.low <= 100 * (a.high / b.low - 1) + 1e-9
            and s.high >= 100 * (a.low / b.high - 1) - 1e-9 as holds
    from stated as s
    join printed as a
        on s.scenario = a.scenario and s.params = a.params and s.method = a.method
        and s.metric = a.metric and s.task = a.task and s.shots = a.shots
    join printed as b
        on a."table" = b."table" and s.scenario = b.scenario and s.params = b.params
        and s.against = b.method and s.metric = b.metric and s.task = b.task
        and s.shots = b.shots
    where s.quantity = 'gain'
)

select * from quoted
union all
select * from gained
order by place, statement, stated, comment
