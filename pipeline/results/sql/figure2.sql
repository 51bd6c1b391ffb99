-- The paper's Figure 2: mean accuracy with batches of Mix, Round-Robin and Random, and how alike the
-- domains' gradients are under Mix. Bands are 95% intervals over seeds, of accuracies also over
-- items; a line without one is of one seed. Noise alone lowers the plain cosine, so the one with noise
-- taken out stands beside it.
select * exclude (
    published_scenario, published_model, published_method, shots, formulation, metric
)
from played_panels
where panel = 'accuracy' and published_scenario = 'glam' and published_model = 'gpt2-large'
    and published_method in ('mix', 'round-robin', 'random')
union all by name
select * exclude (published_scenario, published_model)
    replace (panel_position + 1 as panel_position)
from played_similarities
where published_scenario = 'glam' and published_model = 'gpt2-large' and panel <> 'ratio'
order by scenario, model, panel_position, key_position, key, step
