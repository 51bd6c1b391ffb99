-- Table 3 of the paper: how much training text there is of each language. Ours counts what was packed, up
-- to the source's limit of bytes; the paper's the whole of mC4, in billions of tokens. "X as Y" is ours in the place of the paper's Y.
select *
from corpus_cells
where paper_table = 'table3'
order by block, section, row_position, row_label, column_position
