-- Every place of the paper that its own numbers contradict, both values beside each other. A printed
-- number stands for the interval of what rounds to it, and only what misses it is listed.
--
-- kind is explained in audited, which also has all that holds; kind `theory`: the errata of
-- the derivations, computed on an instance that the comment names. low and high: the
-- interval of the recomputed number.
select place, kind, statement, stated, recomputed, low, high, comment
from audited
where not holds
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
