-- Every place of the paper that its own numbers contradict, both values beside each other. A printed
-- number stands for the interval of what rounds to it, and only what misses it is listed. low and high:
-- the interval of the recomputed number. kind:
--   average     a mean against the columns beside it
--   items       accuracies against the number of items (a finding under the stated N: a mean of several
--               checkpoints, or shared points, would lift it)
--   mark        bold (the best of its column) and underlined numbers against the numbers
--   same run    settings that stand for one run, under two names
--   grid        settings of an ablation that the grid of settings lacks
--   tie         equal in print, and marked differently (a finding to explain, not an error by itself)
--   alike       two runs with the same perplexities (a finding to explain, not an error by itself)
--   quote       numbers of the tables, in the text
--   sum         of weights
--   said twice  the same thing at two places
--   theory      the errata of the derivations, computed on an instance that the comment names
select * from paper_contradictions
union all
select
    place,
    'theory',
    statement,
    format('{:.4g}', stated),
    format('{:.4g}', recomputed),
    recomputed,
    recomputed,
    verdict || ': ' || comment
from paper_errata
order by kind, place, statement, stated, comment
