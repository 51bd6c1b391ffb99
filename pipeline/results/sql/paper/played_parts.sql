-- The methods of our scenarios and sizes that play parts of the paper: played_runs without the seeds.
select distinct
    scenario, model, method, published_scenario, published_model, published_method, single,
    single_domain
from played_runs
order by scenario, model, method, published_method
