-- The paper's Figure 3: Example 1, two quadratic losses, under the mixture that is best for the next
-- step and under static ones, and the share of task 1 in the batches. Static losses are exact; bands are
-- 95% intervals of simulated paths. The paper does not say with which values it was drawn: ours are the
-- first row of theory_example_settings.
select mixture, position as mixture_position, step, loss, low, high, share
from theory_example
order by position, step
