-- The pairs of methods that decide a claim: `pairs` whose quantity and shots are the claim's, and whose
-- names match its patterns. Null matches all; in `against`, all that are no PiKE: the best of them is
-- the hardest to beat, so a claim over all of them is decided by its smallest gain.
with patterns (claim, quantity, method, against, scenario, model, shots) as (
    values
    ('pike-accuracy-en-hi', 'accuracy', 'pike', null, 'mc4-en-hi', 'gpt2-large', 0),
    ('pike-over-doremi', 'accuracy', 'pike-glam-init', 'doremi', 'glam', 'gpt2-large', 7),
    ('pike-over-glam', 'accuracy', 'pike-glam-init', 'glam', 'glam', 'gpt2-large', 7),
    ('pike-over-famo', 'accuracy', 'pike-glam-init', 'famo', 'glam', 'gpt2-large', 7),
    ('pike-over-ado', 'accuracy', 'pike-glam-init', 'ado', 'glam', 'gpt2-large', 7),
    ('pike-small-glam', 'accuracy', 'pike-glam-init', 'doremi|glam|famo', 'glam', 'gpt2-small', 7),
    ('pike-over-glam-methods', 'accuracy', 'pike(-glam-init)?', 'doremi|glam|mix', 'glam', null, 7),
    ('pike-highest-multilingual', 'accuracy', 'pike', null, 'mc4-.*', null, 0),
    ('pike-over-all', 'accuracy', 'pike', null, 'glam', null, 7),
    ('pike-over-all', 'accuracy', 'pike', null, 'mc4-.*', null, 0),
    ('adaptive-over-static', 'accuracy', 'pike', 'mix|round-robin|random|glam|doremi', null, null, null),
    ('prior-weights', 'accuracy', 'pike-glam-init', 'pike', 'glam', null, 7),
    ('prior-weights-zero-shot', 'accuracy', 'pike-glam-init', 'pike', 'glam', null, 0),
    ('accuracy-despite-perplexity', 'accuracy', 'pike', 'mix', 'glam', 'gpt2-large', 7),
    ('perplexity-misleads', 'perplexity', 'mix', 'pike', 'glam', 'gpt2-large', null),
    ('mixing-over-single', 'single', 'mix', 'single-.*', null, null, null),
    ('mix-over-others', 'accuracy', 'mix', 'round-robin|random', null, null, null),
    ('mix-over-others-table1', 'accuracy', 'mix', 'round-robin|random', 'mc4-en-hi-de', 'gpt2-large', 0),
    ('mix-over-others-perplexity', 'perplexity', 'mix', 'round-robin|random', null, null, null),
    ('pcgrad-like-mix', 'perplexity', 'pcgrad', 'mix', null, null, null),
    ('adatask-slower', 'perplexity', 'mix', 'adatask', null, null, null),
    ('tau-evens-losses', 'spread', 'balanced-pike-tau3', 'balanced-pike-tau1', null, null, null),
    ('tau-evens-losses', 'spread', 'balanced-pike-tau5', 'balanced-pike-tau3', null, null, null),
    ('tau3-lowest-perplexity', 'perplexity', 'balanced-pike-tau3', '.*', 'mc4-en-hi-de', 'gpt2-large', null),
    ('tau3-highest-accuracy', 'accuracy', 'balanced-pike-tau3', '.*', 'mc4-en-hi-de', 'gpt2-large', 0),
    ('balanced-keeps-accuracy', 'accuracy', 'balanced-pike-.*', 'pike', null, null, null),
    ('variance-term', 'accuracy', 'pike-zeta1=0.1-zeta2=0.005', 'pike-zeta1=0.1-zeta2=0', null, null, null),
    ('variance-term-any', 'accuracy', 'pike-zeta1=0.1-zeta2=.*', 'pike-zeta1=0.1-zeta2=0', null, null, null),
    ('one-estimate-suffices', 'accuracy', 'pike-estimates=1', 'pike-estimates=.*', null, null, null)
)

select c.claim, p.*
from patterns as c
join pairs as p
    on c.quantity = p.quantity and regexp_full_match(p.method, c.method)
    and coalesce(regexp_full_match(p.against, c.against), not contains(p.against, 'pike'))
    and regexp_full_match(p.scenario, coalesce(c.scenario, '.*'))
    and coalesce(c.model = p.model, true) and coalesce(c.shots = p.shots, true)
order by c.claim, p.side, p.cell
