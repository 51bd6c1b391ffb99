-- Claims that PiKE is sooner where Mix ends: the paper's figure prints a number alone, ours are those of
-- speedups. A PiKE that never gets there, or does not stay there, has a speed of 0.
select distinct
    c.claim,
    c.quantity,
    'ours' as side,
    p.published_scenario as scenario,
    p.published_model as model,
    p.published_method as method,
    p.published_against as against,
    s.scenario || ' / ' || s.model || ', ' || s.shots || '-shot: ' || s.method || ' over '
        || s.against as cell,
    coalesce(s.ratio, 0) as value,
    coalesce(s.low, 0) as low,
    coalesce(s.high, case when s.ratio is null then 0 end) as high,
    s.p,
    s.seeds,
    s.scenario as our_scenario
from speedups as s
semi join headline_accuracies using (shots, formulation, metric)
join played_pairs as p using (scenario, model, method, against)
join paper_patterns as c
    on c.quantity = 'speed' and p.published_method = c.method and p.published_against = c.against
    and coalesce(p.published_scenario = c.scenario, true) and coalesce(p.published_model = c.model, true)
where s.quantity = 'accuracy' and p.alike
order by c.claim, side, cell
