-- Weights that do not sum to one, factors that do not give their product, parts greater than the
-- whole, and shares of time that do not follow from the hours: each number by its interval.
with weights as (
    select
        place,
        subject || ' sum to one' as statement,
        '1' as stated,
        format('{:.2f}', sum(value)) as recomputed,
        round(sum(low), 9) as low,
        round(sum(high), 9) as high,
        string_agg(task || ' ' || shown, ', ' order by value desc, task) as comment,
        sum(low) <= 1 + 1e-9 and sum(high) >= 1 - 1e-9 as holds
    from stated
    where quantity = 'weight'
    group by place, subject
),

products as (
    select
        p.place,
        p.subject as statement,
        p.shown as stated,
        format('{:g}', product(f.value)) as recomputed,
        round(product(f.low), 9) as low,
        round(product(f.high), 9) as high,
        string_agg(f.shown || ' ' || f.unit, ' x ' order by f.unit, f.shown) as comment,
        product(f.low) <= p.high + 1e-9 and product(f.high) >= p.low - 1e-9 as holds
    from stated as p
    join stated as f on p.subject = f.subject and f.quantity = 'factor'
    where p.quantity = 'product'
    group by p.place, p.subject, p.shown, p.low, p.high
),

wholes as (
    select
        w.place,
        'parts of the ' || w.subject as statement,
        w.shown as stated,
        format('{:g}', sum(p.value)) as recomputed,
        round(sum(p.low), 9) as low,
        round(sum(p.high), 9) as high,
        string_agg(p.task || ' ' || p.shown, ', ' order by p.task) as comment,
        sum(p.low) <= w.high as holds
    from stated as w
    join stated as p on w.subject = p.subject and p.quantity = 'part'
    where w.quantity = 'whole'
    group by w.place, w.subject, w.shown, w.high
),

overheads as (
    select
        p."table" as place,
        'overhead of PiKE in percent of the hours, ' || p.model || ' ' || p.params as statement,
        p.shown || '%' as stated,
        format('{:.2f}%', 100 * h.value / t.value) as recomputed,
        100 * h.low / t.high as low,
        100 * h.high / t.low as high,
        h.shown || ' of ' || t.shown || ' hours' as comment,
        100 * h.low / t.high <= p.high + 1e-9 and 100 * h.high / t.low >= p.low - 1e-9 as holds
    from printed as p
    join printed as h
        on p."table" = h."table" and p.scenario = h.scenario and p.params = h.params
        and h.metric = 'pike_overhead_hours'
    join printed as t
        on p."table" = t."table" and p.scenario = t.scenario and p.params = t.params
        and t.metric = 'train_hours'
    where p.metric = 'pike_overhead_pct'
)

select place, 'sum' as kind, * exclude (place) from weights
union all
select place, 'product', * exclude (place) from products
union all
select place, 'sum', * exclude (place) from wholes
union all
select place, 'share', * exclude (place) from overheads
order by place, statement, stated, comment
