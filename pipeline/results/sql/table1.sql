-- Table 1 of the paper: three languages, the large model. Perplexity on held-out text, lower is better, and
-- accuracy in percent, higher is better; means over seeds, ± half of the 95% interval, over seeds and over the
-- documents or items that all seeds share (one seed: over these alone). A mean over languages or tasks is
-- arithmetic. "X as Y" is ours in the place of the paper's Y.
select * exclude (paper_table, block, size_position, section_position)
from score_table_cells -- its cells and their decimals: paper/score_table_cells.sql
where paper_table = 'table1'
order by block, size_position, section_position, section, row_position, row_label, column_position
