-- Claims that a PiKE is more accurate than others: the best other method is the hardest to beat, so a
-- claim over all of them is decided by its smallest gain.
select 'pike-accuracy-en-hi' as claim, *
from pairs
where quantity = 'accuracy' and method = 'pike' and not contains(against, 'pike') and scenario = 'mc4-en-hi'
    and model = 'gpt2-large' and shots = 0
union all
select 'pike-over-doremi', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against = 'doremi' and scenario = 'glam'
    and model = 'gpt2-large' and shots = 7
union all
select 'pike-over-glam', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against = 'glam' and scenario = 'glam'
    and model = 'gpt2-large' and shots = 7
union all
select 'pike-over-famo', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against = 'famo' and scenario = 'glam'
    and model = 'gpt2-large' and shots = 7
union all
select 'pike-over-ado', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against = 'ado' and scenario = 'glam'
    and model = 'gpt2-large' and shots = 7
union all
select 'pike-small-glam', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against in ('doremi', 'glam', 'famo') and scenario = 'glam'
    and model = 'gpt2-small' and shots = 7
union all
select 'pike-over-glam-methods', *
from pairs
where quantity = 'accuracy' and method in ('pike', 'pike-glam-init') and against in ('doremi', 'glam', 'mix')
    and scenario = 'glam' and shots = 7
union all
select 'pike-highest-multilingual', *
from pairs
where quantity = 'accuracy' and method = 'pike' and not contains(against, 'pike') and scenario like 'mc4-%' and shots = 0
union all
select 'pike-over-all', *
from pairs
where quantity = 'accuracy' and method = 'pike' and not contains(against, 'pike')
    and shots = case when scenario = 'glam' then 7 else 0 end
union all
select 'adaptive-over-static', *
from pairs
where quantity = 'accuracy' and method = 'pike' and against in ('mix', 'round-robin', 'random', 'glam', 'doremi')
union all
select 'prior-weights', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against = 'pike' and scenario = 'glam' and shots = 7
union all
select 'prior-weights-zero-shot', *
from pairs
where quantity = 'accuracy' and method = 'pike-glam-init' and against = 'pike' and scenario = 'glam' and shots = 0
union all
select 'accuracy-despite-perplexity', *
from pairs
where quantity = 'accuracy' and method = 'pike' and against = 'mix' and scenario = 'glam' and model = 'gpt2-large'
    and shots = 7
union all
select 'perplexity-misleads', *
from pairs
where quantity = 'perplexity' and method = 'mix' and against = 'pike' and scenario = 'glam' and model = 'gpt2-large'
union all
select 'mixing-over-single', *
from pairs
where quantity = 'single'
order by claim, side, cell
