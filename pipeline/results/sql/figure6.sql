-- Figure 6 of the paper: how alike the gradients of GLaM's domains are under Mix, the large model: cosine, cosine with
-- the noise taken out, and ratio, by pair.
select * exclude (published_scenario, published_model)
from played_similarities
where published_scenario = 'glam' and published_model = 'gpt2-large'
order by scenario, model, panel_position, key_position, key, step
