-- The paper's Figure 7: mean perplexity on held-out text of two languages with Mix, PCGrad and AdaTask,
-- the small model, each over its own seeds: the table of perplexity compares them seed by seed. Lower is
-- better; the untrained model is left out. A band, or bar, is the 95% interval over seeds and documents.
select * exclude (
    published_scenario, published_model, published_method, shots, formulation, metric
)
from played_panels
where panel = 'perplexity' and step > 0
    and published_scenario = 'mc4-en-hi' and published_model = 'gpt2-small'
    and published_method in ('mix', 'pcgrad', 'adatask')
order by scenario, model, key_position, key, step
