-- Averages that do not follow from the columns beside them: each printed number stands for its
-- interval, and the mean's interval must meet that of the average.
with grouped as (
    select
        "table",
        scenario,
        params,
        method,
        metric,
        shots,
        max(shown) filter (task = 'average') as stated,
        max(low) filter (task = 'average') as stated_low,
        max(high) filter (task = 'average') as stated_high,
        max(decimals) as decimals,
        round(avg(value) filter (task <> 'average'), 9) as value,
        round(avg(low) filter (task <> 'average'), 9) as low,
        round(avg(high) filter (task <> 'average'), 9) as high,
        string_agg(task || ' ' || shown, ', ' order by task) filter (task <> 'average') as parts
    from printed
    where metric in ('perplexity', 'accuracy')
    group by all
    having count(*) filter (task <> 'average') > 0 and stated is not null
)

-- One run's average counts once, wherever it is printed. Sums are rounded: their last digit depends on
-- the order of the rows.
select
    string_agg("table", ', ' order by len("table"), "table") as place,
    'average' as kind,
    'mean ' || metric || ' of ' || method || ' on ' || scenario || ', ' || params
        || coalesce(', ' || shots || '-shot', '') as statement,
    stated,
    format('{:.' || decimals + 1 || 'f}', value) as recomputed,
    low,
    high,
    'from ' || parts as comment,
    low <= stated_high + 1e-9 and high >= stated_low - 1e-9 as holds
from grouped
group by all
order by place, statement, stated, comment
