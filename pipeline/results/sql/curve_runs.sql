-- Runs of which a curve is drawn: of each method those with the most evaluated checkpoints, so that every point of a line
-- is a mean over the same seeds; of a method without a curve those on seeds that others' curves have, if it has some.
with counted as (
    select run, scenario, model, method,
        (count(distinct step), max(count(distinct step)) over (partition by scenario, model, seed)) as steps
    from validation
    group by run, scenario, model, method, seed
)

select run
from counted
qualify steps = max(steps) over (partition by scenario, model, method)
order by run
