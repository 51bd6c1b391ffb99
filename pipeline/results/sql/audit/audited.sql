-- All that was recomputed of what the paper prints, and whether it holds. place: the table or LaTeX
-- label where it is stated. kind:
--   average     a mean against the columns beside it
--   items       accuracies against the number of items (findings under the stated N)
--   mark        bold and underlined numbers against the numbers
--   twice       one run in two tables
--   same run    settings that stand for one run, under two names
--   grid        settings of an ablation that the grid of settings lacks
--   tie         equal in print, and marked differently (a finding to explain, not an error by itself)
--   alike       two runs with the same perplexities (a finding to explain, not an error by itself)
--   quote, gain numbers of the tables, and gains from them, in the text
--   sum, product, share   of weights, of factors, of hours
--   said twice  the same thing at two places
select * from audit_averages
union all by name
select * from audit_items
union all by name
select * from audit_marks
union all by name
select * from audit_tables
union all by name
select * from audit_quotes
union all by name
select * from audit_sums
union all by name
select * from audit_repeated
order by kind, place, statement, stated, comment
