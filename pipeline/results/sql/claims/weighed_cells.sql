-- The numbers that decide a claim with the claim's bounds: margin, how far inside a number lies (below
-- zero: outside), and factor, by which half widths grow so that the intervals of all `times` cells of
-- the claim hold together with 95% (Bonferroni). Claims about scale ask for the paper's own sizes.
--
-- With t the quantile at 5% and nu degrees of freedom, t'^2 = nu ((1 + t^2 / nu) m^(2 / nu) - 1) leaves at
-- most one m-th of its tail, since tail(t) (1 + t^2 / nu)^(nu / 2) falls with t. 2.04 for 30 degrees
-- and ten cells becomes 3.14; the exact quantile is 3.03. One seed has its items to go by: 30.
with cells as (
    select
        c.*,
        k.lower,
        k.upper,
        least(
            coalesce(c.value - k.lower, 'infinity'::double),
            coalesce(k.upper - c.value, 'infinity'::double)
        ) as margin,
        coalesce(y.yes, false) as comparable
    from claim_cells as c
    join paper_claims as k on c.claim = k.claim
    left join comparable as y on c.our_scenario = y.scenario
    where c.value is not null and (c.side = 'paper' or not k.at_scale or coalesce(y.yes, false))
),

counted as (
    select
        *,
        count(*) over (partition by claim, side) as times,
        least(30, coalesce(degrees, nullif(seeds - 1, 0), 30)) as known
    from cells
)

select
    * exclude (known),
    sqrt(known * ((1 + t95(known) ^ 2 / known) * times ^ (2.0 / known) - 1)) / t95(known) as factor
from counted
order by claim, side, margin, cell
