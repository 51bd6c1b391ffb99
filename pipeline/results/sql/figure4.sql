-- The paper's Figure 4: mean accuracy with batches of Mix, Round-Robin and Random, for three languages
-- and for the six domains, the large model; a band is the 95% interval over seeds and items, a line
-- without one is of one seed.
select * exclude (
    published_scenario, published_model, published_method, shots, formulation, metric
)
from played_panels
where panel = 'accuracy' and published_scenario in ('mc4-en-hi-de', 'glam')
    and published_model = 'gpt2-large' and published_method in ('mix', 'round-robin', 'random')
order by published_scenario desc, scenario, key_position, key, step
