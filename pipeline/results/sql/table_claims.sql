-- Every quantitative sentence of the paper: the number that it prints, that number from its own tables, and
-- ours, with both verdicts. Where a sentence speaks of several numbers, the one that speaks most
-- against it is shown.
--
-- A sentence holds between its bounds; behind our number the 95% interval. Definitions: claims.sql.
select
    null::text as scenario,
    null::text as model,
    'All claims, in the paper''s order' as section,
    'statement' as kind,
    k.position as row_position,
    k.statement || ' (' || k.claim || ', ' || k.place || ')' as row_label,
    c.position as column_position,
    c.label as column_label,
    case c.position
        when 1 then k.published_recomputed when 3 then k.ours when 6 then k.seeds
    end as value,
    case when c.position < 5 then 2 else 0 end as decimals,
    case c.position
        when 0 then coalesce(k.published_value || ' ' || k.unit, '')
        when 1 then coalesce(format('{:.2f}', k.published_recomputed) || ' ' || k.unit, '')
        when 2 then k.published_verdict
        when 3 then coalesce(
            format('{:.2f}', k.ours)
            || coalesce(format(' [{:.2f}, {:.2f}]', k.ours_low, k.ours_high), '') || ' ' || k.unit,
            ''
        )
        when 5 then k.cells_within || ' of ' || k.cells || ' within the bounds'
        when 4 then k.verdict || coalesce(format(' (wants {} or more)', k.seeds_wanted), '')
    end as text
from claims as k
cross join (
    values (0, 'printed'), (1, 'from its tables'), (2, 'its verdict'), (3, 'ours'),
    (4, 'our verdict'), (5, 'comparisons of ours'), (6, 'seeds')
) as c (position, label)
order by row_position, column_position
