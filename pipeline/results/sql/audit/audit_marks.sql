-- Bold and underlined numbers that the numbers around them contradict: bold is the best of its column,
-- underlined is a PiKE that beats Mix, Round-Robin and Random. What is printed equal may have been
-- different before rounding: it counts neither way. Only tables that use a mark are asked for it.
with used as (
    select "table", bool_or(bold) as bolds, bool_or(underlined) as underlines
    from paper
    group by all
),

rivals as (
    select
        p.*,
        u.bolds,
        u.underlines,
        case when p.metric = 'perplexity' then -p.value else p.value end as score
    from printed as p
    join used as u on p."table" = u."table"
    where p.metric in ('perplexity', 'accuracy')
),

ranked as (
    select
        *,
        max(score) over column_of as best,
        max(case when bold then score end) over column_of as best_bold,
        count(*) over column_of as methods,
        max(case when method in ('mix', 'round-robin', 'random') then score end)
            over column_of as simple,
        arg_max(method || ' ' || shown, score) over column_of as best_shown
    from rivals
    window column_of as (partition by "table", scenario, params, metric, task, shots)
),

marks as (
    select *, 'bold' as mark, score >= best as holds,
        'the best is ' || best_shown as comment
    from ranked
    where bolds and methods > 1 and bold
    union all
    select *, 'not bold', best_bold is not distinct from best, 'nothing is better than it'
    from ranked
    where bolds and methods > 1 and not bold and score = best
    union all
    select *, 'underlined', score >= simple,
        'Mix, Round-Robin or Random is better'
    from ranked
    where underlines and underlined
    union all
    select *, 'not underlined', score <= simple,
        'better than Mix, Round-Robin and Random'
    from ranked
    where underlines and not underlined and contains(method, 'pike') and simple is not null
),

ties as (
    select *, 'not bold' as mark, 'bold: ' || string_agg(method || ' ' || shown, ', ')
        filter (bold) over (partition by "table", scenario, params, metric, task, shots, score) as comment
    from ranked
    where bolds and score = best
    qualify not bold and best_bold = best
    union all
    select *, 'underlined', 'as much as the best of Mix, Round-Robin and Random'
    from ranked
    where underlines and underlined and score = simple
)

select
    "table" as place,
    'mark' as kind,
    metric || coalesce(' on ' || task, '') || ' of ' || method || ', ' || scenario || ', '
        || params || coalesce(', ' || shots || '-shot', '') as statement,
    shown || ', ' || mark as stated,
    -- The other of "bold" and "not bold" where the mark is wrong.
    case when holds then mark when starts_with(mark, 'not ') then mark[5:] else 'not ' || mark end
        as recomputed,
    null::double as low,
    null::double as high,
    comment,
    holds
from marks
union all
select "table", 'tie', metric || coalesce(' on ' || task, '') || ' of ' || method || ', ' || scenario
    || ', ' || params || coalesce(', ' || shots || '-shot', ''), shown || ', ' || mark, 'a tie', null, null,
    comment, false
from ties
order by place, statement, stated, comment
