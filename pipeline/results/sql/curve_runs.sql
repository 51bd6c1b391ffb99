-- Runs of which a curve is drawn: of each method those with the most evaluated checkpoints, so that every point of a line
-- is a mean over the same seeds.
select v.run
from validation as v
group by v.run, v.scenario, v.model, v.method
qualify count(distinct v.step) = max(count(distinct v.step)) over (partition by v.scenario, v.model, v.method)
order by v.run
