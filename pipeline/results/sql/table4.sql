-- Table 4 of the paper: how much training text there is of each domain, and the fixed weights that GLaM and
-- DoReMi chose; ours counts what was packed, and shows the weights that our runs of these names draw by, as
-- given and divided by their sum.
-- The paper's tokens are in billions. "X as Y" is ours in the place of the paper's Y: none of it is GLaM's
-- data.
select *
from corpus_cells
where paper_table = 'table4'
order by block, section, row_position, row_label, column_position
