-- The paper's tables of its set-up (3 to 7) as they are printed, as cells of a table: to stand below ours.
select
    paper_table,
    cast(null as text) as scenario,
    cast(null as text) as model,
    'As printed' as section,
    'method' as kind,
    row_position,
    row_label,
    column_position,
    column_label,
    0 as decimals,
    text,
    1 as block
from paper_setup
order by paper_table, row_position, column_position
