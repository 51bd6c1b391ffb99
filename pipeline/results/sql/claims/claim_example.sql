-- The claim that in Example 1 adaptive mixing ends below every static mixture: the last expected loss of
-- the best static mixture in hindsight less the adaptive one's, for each setting of the theory stage, with
-- the error of the simulation, which is as good as known (thousands of paths).
select
    'example-adaptive-over-static' as claim,
    'loss' as quantity,
    'ours' as side,
    'adaptive' as method,
    'static' as against,
    setting as cell,
    best_static - adaptive as value,
    best_static - high as low,
    best_static - low as high,
    (high - low) / 2 / t95('infinity'::double) as item_stderr
from theory_example_settings
order by claim, side, cell
