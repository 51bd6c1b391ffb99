-- The numbers that decide a claim with the claim's bounds: margin says how far inside a number lies (below
-- zero: outside). Claims about scale ask for the paper's own sizes.
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
join paper_claims as k using (claim)
left join comparable as y on c.our_scenario = y.scenario
where c.value is not null and (c.side = 'paper' or not k.at_scale or coalesce(y.yes, false))
order by c.claim, c.side, margin, c.cell
