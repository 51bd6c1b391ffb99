-- The paper's Figure 3: the expected loss of Example 1 at every step under adaptive and under static
-- mixtures, and the share of task 1 in the batches.
select mixture, position as mixture_position, step, loss, low, high, share
from theory_example
order by position, step
