-- Claims that PiKE is sooner where Mix ends: the paper's figure prints a number alone, ours are those of
-- speedups. A PiKE that never gets there, or does not stay there, has a speed of 0.
with headline as (
    select distinct shots, formulation, metric from headline_accuracies
)

select distinct
    c.claim,
    c.quantity,
    'ours' as side,
    a.published_scenario as scenario,
    a.published_model as model,
    a.published_method as method,
    b.published_method as against,
    s.scenario || ' / ' || s.model || ', ' || s.shots || '-shot: ' || s.method || ' over '
        || s.against as cell,
    coalesce(s.ratio, 0) as value,
    coalesce(s.low, 0) as low,
    coalesce(s.high, case when s.ratio is null then 0 end) as high,
    s.p,
    s.seeds,
    s.scenario as our_scenario
from speedups as s
join headline as h using (shots, formulation, metric)
join played_parts as a using (scenario, model, method)
join played_parts as b
    on s.scenario = b.scenario and s.model = b.model and s.against = b.method
    and a.published_scenario = b.published_scenario and a.published_model = b.published_model
join paper_patterns as c
    on c.quantity = 'speed' and a.published_method = c.method and b.published_method = c.against
    and coalesce(a.published_scenario = c.scenario, true) and coalesce(a.published_model = c.model, true)
where s.quantity = 'accuracy'
order by c.claim, side, cell
