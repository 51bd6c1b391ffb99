-- Validation loss over training, to be drawn as the difference to the baseline at the same step.
select f.*
from figure_losses as f
join scenarios as s on f.scenario = s.scenario
order by s.position, f.scenario, f.model, f.domain_position, f.domain, f.method_position, f.step
