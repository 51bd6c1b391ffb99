-- The claim that PiKE is where Mix ends 1.9 times sooner: the paper's figure prints the number alone, ours is
-- that of speedups. A PiKE that never gets there has a speed of 0.
with headline as (
    select distinct shots, formulation, metric from headline_accuracies
)

select distinct
    'pike-speed-up' as claim,
    'speed' as quantity,
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
    s.seeds,
    s.scenario as our_scenario
from speedups as s
join headline as h
    on s.shots = h.shots and s.formulation = h.formulation and s.metric = h.metric
join played_parts as a on s.scenario = a.scenario and s.model = a.model and s.method = a.method
join played_parts as b
    on s.scenario = b.scenario and s.model = b.model and s.against = b.method
    and a.published_scenario = b.published_scenario and a.published_model = b.published_model
where s.quantity = 'accuracy' and a.published_method = 'pike' and b.published_method = 'mix'
    and a.published_scenario = 'mc4-en-hi' and a.published_model = 'gpt2-large'
order by claim, side, cell
