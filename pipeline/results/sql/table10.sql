-- Table 10 of the paper: the six domains of GLaM, the large model, accuracy in percent without demonstrations
-- and with seven, as far as ours was asked; means over seeds, ± half of the 95% interval, over seeds and over
-- the documents or items that all seeds share (one seed: over these alone). "X as Y" is ours in the place of
-- the paper's Y.
select * exclude (paper_table, block, size_position, section_position)
from score_table_cells -- its cells and their decimals: paper/score_table_cells.sql
where paper_table = 'table10'
order by block, size_position, section_position, section, row_position, row_label, column_position
