-- Table 14 of the paper: all runs on GLaM's domains, both sizes of the model. Mean perplexity over the domains,
-- or that of the only one, lower is better, and accuracy in percent, higher is better; means over seeds, ± half
-- of the 95% interval, over seeds and over the documents or items that all seeds share (one seed: over these
-- alone). "X as Y" is ours in the place of the paper's Y.
select * exclude (paper_table, block, size_position, section_position)
from score_table_cells -- its cells and their decimals: paper/score_table_cells.sql
where paper_table = 'table14'
order by block, size_position, section_position, section, row_position, row_label, column_position
