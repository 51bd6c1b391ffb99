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
    c.*
from claims as k
cross join lateral (values
    (0, 'printed', null, 2, coalesce(k.published_value || ' ' || k.unit, '')),
    (1, 'from its tables', k.published_recomputed, 2,
        coalesce(format('{:.2f}', k.published_recomputed) || ' ' || k.unit, '')),
    (2, 'its verdict', null, 2, k.published_verdict),
    (3, 'ours', k.ours, 2, coalesce(
        format('{:.2f}', k.ours)
        || coalesce(format(' [{:.2f}, {:.2f}]', k.ours_low, k.ours_high), '') || ' ' || k.unit,
        ''
    )),
    (4, 'our verdict', null, 2,
        k.verdict || coalesce(format(' (wants {} or more)', k.seeds_wanted), '')),
    (5, 'comparisons of ours', null, 0, k.cells_within || ' of ' || k.cells || ' within the bounds'),
    (6, 'seeds', k.seeds, 0, null)
) as c (column_position, column_label, value, decimals, text)
order by row_position, column_position
