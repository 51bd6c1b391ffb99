-- Claims that Mix beats Round-Robin and Random, and about the methods of multi-task learning.
select 'mix-over-others' as claim, *
from pairs
where quantity = 'accuracy' and method = 'mix' and against in ('round-robin', 'random')
union all
select 'mix-over-others-table1', *
from pairs
where quantity = 'accuracy' and method = 'mix' and against in ('round-robin', 'random') and scenario = 'mc4-en-hi-de'
    and model = 'gpt2-large' and shots = 0
union all
select 'mix-over-others-perplexity', *
from pairs
where quantity = 'perplexity' and method = 'mix' and against in ('round-robin', 'random')
union all
select 'pcgrad-like-mix', *
from pairs
where quantity = 'perplexity' and method = 'pcgrad' and against = 'mix'
union all
select 'adatask-slower', *
from pairs
where quantity = 'perplexity' and method = 'mix' and against = 'adatask'
order by claim, side, cell
