-- Claims about Balanced-PiKE: that a larger tau evens the losses out, that tau = 3 is best, and that it
-- costs no accuracy.
select 'tau-evens-losses' as claim, *
from pairs
where quantity = 'spread' and (method, against) in (
    ('balanced-pike-tau3', 'balanced-pike-tau1'), ('balanced-pike-tau5', 'balanced-pike-tau3')
)
union all by name
select 'tau3-lowest-perplexity' as claim, *
from pairs
where quantity = 'perplexity' and method = 'balanced-pike-tau3' and scenario = 'mc4-en-hi-de' and model = 'gpt2-large'
union all by name
select 'tau3-highest-accuracy' as claim, *
from pairs
where quantity = 'accuracy' and method = 'balanced-pike-tau3' and scenario = 'mc4-en-hi-de' and model = 'gpt2-large'
    and shots = 0
union all by name
select 'balanced-keeps-accuracy' as claim, *
from pairs
where quantity = 'accuracy' and method like 'balanced-pike-%' and against = 'pike'
order by claim, side, cell
