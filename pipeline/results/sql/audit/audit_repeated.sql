-- What the paper says at several places, in numbers or in words, and not the same each time: the value
-- that stands apart, beside the one that is said most often.
with said as (
    select place, quantity, subject, shown, low, high, unit, quote,
        shown || case when unit = 'hours' then ' day' || case shown when '1' then '' else 's' end
            else '' end as text
    from stated
    where quantity in ('size', 'setting', 'count', 'training time')
    union all
    select "table", 'training time',
        case model when 'gpt2-small' then 'GPT-2 small' else 'GPT-2 large' end || ', ' || params,
        shown, low, high, 'hours', 'Total Training Time (hrs)', shown || ' hours'
    from printed
    where metric = 'train_hours'
),

-- One value may be written as 32,000 and 32K: it is one interval or the other.
values_said as (
    select quantity, subject, low, high, min(text) as text, count(*) as times,
        string_agg(distinct place, ', ' order by place) as places,
        string_agg(distinct quote, ' ... ' order by quote) as quotes
    from said
    group by all
),

-- The value that is said most often; of two, the table's.
usual as (
    select *
    from values_said
    qualify row_number() over (
        partition by quantity, subject order by times desc, places like 'table%' desc, places
    ) = 1
),

numbers as (
    select
        v.places as place,
        v.subject as statement,
        v.text as stated,
        u.text as recomputed,
        u.low,
        u.high,
        v.quotes || '; in ' || u.places || ': ' || u.quotes as comment,
        v.low <= u.high + 1e-9 and v.high >= u.low - 1e-9 as holds
    from values_said as v
    join usual as u on v.quantity = u.quantity and v.subject = u.subject
    where v.text <> u.text
),

-- The first place is the one that defines it.
words as (
    select
        a.place as place,
        a.subject as statement,
        a.value as stated,
        b.value as recomputed,
        null::double as low,
        null::double as high,
        a.quote || '; in ' || b.place || ': ' || b.quote as comment,
        a.value = b.value as holds
    from paper_statements as a
    join paper_statements as b
        on a.quantity = 'words' and b.quantity = 'words' and a.subject = b.subject
        and a.rowid > b.rowid
)

select place, 'said twice' as kind, * exclude (place) from numbers
union all
select place, 'said twice', * exclude (place) from words
order by place, statement, stated, comment
