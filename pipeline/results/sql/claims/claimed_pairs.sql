-- Our methods whose mean accuracies some claim compares, as the paper's cells of claims say by its names.
select distinct a.scenario, a.model, a.method, b.method as against
from claim_cells as c
join played_parts as a
    on c.scenario = a.published_scenario and c.model = a.published_model
    and c.method = a.published_method
join played_parts as b
    on a.scenario = b.scenario and a.model = b.model and c.scenario = b.published_scenario
    and c.model = b.published_model and c.against = b.published_method
where c.side = 'paper' and c.quantity = 'accuracy'
order by a.scenario, a.model, a.method, b.method
