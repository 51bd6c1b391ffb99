-- The claim that a mixture chosen by small models may serve a larger one less: the gain in mean accuracy of
-- the method with the small model less that with the large one, of the paper and of ours. Both gains count as
-- independent, so that their errors add up: of the same items they are alike if anything, which makes the error too
-- large. The one with fewer seeds says how many there are.
select
    c.claim,
    c.quantity,
    s.side,
    s.scenario,
    'gpt2-small' as model,
    s.shots,
    s.method,
    s.against,
    s.cell || ', less that of the larger model' as cell,
    s.value - l.value as value,
    s.value - l.value - if(s.side = 'paper', s.value - s.low + l.high - l.value,
        sqrt((s.value - s.low) ^ 2 + (l.high - l.value) ^ 2)) as low,
    s.value - l.value + if(s.side = 'paper', s.high - s.value + l.value - l.low,
        sqrt((s.high - s.value) ^ 2 + (l.value - l.low) ^ 2)) as high,
    sqrt(s.seed_stderr ^ 2 + l.seed_stderr ^ 2) as seed_stderr,
    sqrt(s.item_stderr ^ 2 + l.item_stderr ^ 2) as item_stderr,
    -- Satterthwaite's, of the sum.
    (s.item_stderr ^ 2 + l.item_stderr ^ 2) ^ 2
        / nullif(s.item_stderr ^ 4 / s.degrees + l.item_stderr ^ 4 / l.degrees, 0) as degrees,
    least(s.effective, l.effective) as effective,
    sqrt(s.stderr ^ 2 + l.stderr ^ 2) as stderr,
    least(s.seeds, l.seeds) as seeds,
    s.our_scenario
from paper_patterns as c
join pairs as s
    on s.quantity = 'accuracy' and s.method = c.method and s.against = c.against
    and s.scenario = c.scenario and s.model = 'gpt2-small'
join pairs as l
    on s.quantity = l.quantity and s.side = l.side and s.scenario = l.scenario and s.shots = l.shots
    and s.method = l.method and s.against = l.against and l.model = 'gpt2-large'
    and s.our_scenario is not distinct from l.our_scenario
where c.quantity = 'transfer'
order by c.claim, s.side, cell
