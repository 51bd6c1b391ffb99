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
    c.position as column_position,
    c.label as column_label,
    0 as decimals,
    case c.position when 0 then a.stated when 1 then a.recomputed else a.comment end as text
from audit as a
cross join (values (0, 'stated'), (1, 'recomputed'), (2, 'comment')) as c (position, label)
order by section, row_position, column_position
