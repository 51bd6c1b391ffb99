-- Figure 5 of the paper: how alike the gradients of six languages are under Mix, the large model: cosine, cosine with
-- the noise taken out, and ratio, by pair.
select * exclude (published_scenario, published_model)
from played_similarities
where published_scenario = 'mc4-en-hi-de-zh-fr-ar' and published_model = 'gpt2-large'
order by scenario, model, panel_position, key_position, key, step
