-- What the paper states and its own numbers contradict: as stated, as recomputed from what it prints,
-- and how. A printed number stands for all that rounds to it; what agrees within that is not listed.
select
    null::text as scenario,
    null::text as model,
    case kind
        when 'average' then 'Averages against their columns'
        when 'items' then 'Accuracies against the number of items'
        when 'mark' then 'Bold and underlined numbers'
        when 'same run' then 'One run under two names'
        when 'grid' then 'Settings that the grid lacks'
        when 'tie' then 'Equal numbers marked differently'
        when 'alike' then 'Two runs alike'
        when 'quote' then 'The text against the tables'
        when 'said twice' then 'The same thing at two places'
        when 'theory' then 'Derivations'
        else 'Sums'
    end as section,
    'statement' as kind,
    dense_rank() over (
        partition by a.kind order by a.place, a.statement, a.stated, a.recomputed, a.comment
    ) as row_position,
    a.statement || ' (' || a.place || ')' as row_label,
    c.column_position,
    c.column_label,
    0 as decimals,
    c.text
from audit as a
cross join lateral (values
    (0, 'stated', a.stated), (1, 'recomputed', a.recomputed), (2, 'comment', a.comment)
) as c (column_position, column_label, text)
order by section, row_position, column_position
