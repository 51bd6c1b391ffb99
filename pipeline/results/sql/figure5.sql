-- The paper's Figure 5: cosine and ratio of the domains' gradients under Mix, by pair. The plain cosine
-- falls as noise grows; the one with noise taken out stands beside it. The ratio divides the inner
-- product by the sum of both squared lengths: a half for equal gradients.
select * exclude (published_scenario, published_model)
from played_similarities -- its means: figure_similarities.sql
where published_scenario = 'mc4-en-hi-de-zh-fr-ar' and published_model = 'gpt2-large'
order by scenario, model, panel_position, key_position, key, step
