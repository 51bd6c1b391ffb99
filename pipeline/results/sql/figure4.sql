-- Figure 4 of the paper: mean accuracy with batches of Mix, Round-Robin and Random, for three languages and for
-- GLaM's domains, the large model.
select * exclude (
    published_scenario, published_model, published_method, shots, formulation, metric
)
from played_accuracies
where published_scenario in ('mc4-en-hi-de', 'glam') and published_model = 'gpt2-large'
    and published_method in ('mix', 'round-robin', 'random')
order by published_scenario desc, scenario, key_position, key, step
