-- Table 11 of the paper: what PiKE's variance term does: runs that differ in zeta2 alone. Accuracy in percent,
-- higher is better, and mean perplexity below; means over seeds, ± half of the 95% interval, over seeds and
-- over the documents or items that all seeds share. In italics the best: no test. Below in bold what the paper
-- prints so.
select * exclude (paper_table)
from ablation_cells
where paper_table = 'table11'
order by block, section, row_position, column_position
