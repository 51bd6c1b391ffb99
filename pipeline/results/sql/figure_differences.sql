-- The same losses minus those of the baseline at the same step, in nats: below zero a method is ahead.
-- The axis suits the methods near the baseline; others may leave it.
select f.*
from figure_losses as f
join scenarios as s using (scenario)
order by s.position, f.scenario, f.model, f.domain_position, f.domain, f.method_position, f.step
