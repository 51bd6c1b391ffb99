-- Validation loss over training, to be drawn as the difference to the baseline at the same step.
select
    f.scenario,
    f.model,
    f.method,
    f.method_position,
    f.domain,
    f.domain_position,
    f.step,
    f.nll,
    f.low,
    f.high,
    f.seeds,
    f.uniform,
    f.unigram,
    f."floor"
from figure_losses as f
join scenarios as s on f.scenario = s.scenario
order by s.position, f.scenario, f.model, f.domain_position, f.domain, f.method_position, f.step
