-- Accuracies that no number of right answers gives: with N items an accuracy is a multiple of 1 / N,
-- and a mean over tasks is one of such multiples. A finding holds for the N that it names, whole right
-- answers, and one checkpoint: other items, shared points, or means of several would lift it. Means
-- are only asked where the paper itself states N.
with cells as (
    select scenario, params, method, task, shots, shown, low, high,
        string_agg("table", ', ' order by len("table"), "table") as tables
    from printed
    where metric = 'accuracy'
    group by all
),

counted as (
    select
        c.*,
        i.items,
        i.source,
        i.stated,
        100.0 / i.items * ceil(c.low * i.items / 100 - 1e-9) as least,
        100.0 / i.items * floor(c.high * i.items / 100 + 1e-9) as most
    from cells as c
    join paper_items as i on c.task = i.task
),

tasks as (
    select
        task,
        items,
        source,
        count(*) as checked,
        count(*) filter (least > most) as missed,
        string_agg(
            shown || ' (' || method || ', ' || params || ', ' || shots || '-shot)', ', '
            order by params, shots, method
        ) filter (least > most) as examples
    from counted
    group by all
),

means as (
    select a.tables, c.scenario, c.params, c.method, c.shots, a.shown, a.low, a.high,
        round(avg(c.least), 9) as least, round(avg(c.most), 9) as most, min(c.items) as items,
        string_agg(c.task || ' ' || c.shown, ', ' order by c.task) as parts
    from counted as c
    join cells as a
        on a.task = 'average' and c.scenario = a.scenario and c.params = a.params
        and c.method = a.method and c.shots = a.shots
    group by all
    -- Where one of the columns is impossible, or the mean is so without any N, that is the finding.
    having bool_and(c.stated) and bool_and(c.least <= c.most)
        and avg(c.low) <= a.high + 1e-9 and avg(c.high) >= a.low - 1e-9
)

select
    'all tables' as place,
    'items' as kind,
    'accuracies on ' || task || ' that are multiples of 1/' || items as statement,
    checked || ' of ' || checked as stated,
    checked - missed || ' of ' || checked as recomputed,
    null::double as low,
    null::double as high,
    'N: ' || source || coalesce('. Impossible: ' || examples, '') as comment,
    missed = 0 as holds
from tasks
union all
select
    tables,
    'items',
    'mean accuracy of ' || method || ' on ' || scenario || ', ' || params || ', ' || shots
        || '-shot',
    shown,
    format('{:.2f} to {:.2f}', least, most),
    least,
    most,
    'from ' || parts || ', each a multiple of 1/' || items
        || '; a mean that was cut off in place of rounded would explain it',
    least < high - 1e-9 and most >= low - 1e-9
from means
order by place, statement, stated, comment
