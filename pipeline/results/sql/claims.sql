-- Every quantitative sentence of the paper, what its own numbers say about it, and what ours say.
--
-- A sentence says that a number lies between `lower` and `upper`; where it speaks of several (all
-- baselines, all sizes), the one that speaks most against it is shown, and `cells` counts them.
-- published_verdict, of the paper's own numbers:
--   supported       they lie within the bounds and give the published number, whatever their rounding
--   within rounding they do so only for some of what rounds to them (equal numbers, too)
--   contradicted    for none of it
--   figure only     there are none in print
-- published_stderr says how much chance there is in them. verdict, of ours:
--   supported       the 95% intervals of all numbers lie within the bounds
--   contradicted    that of one lies outside, even as wide as 95% for all of them together asks for
--                   (weighed_cells)
--   not significant neither
--   too few seeds   a number is over fewer than three: documents say nothing about other seeds
-- seeds_wanted says how many would decide the last two, if seeds go on to differ as they do.
--   not run         no such runs, or a claim about scale that only the paper's own sizes can test
-- value_agrees: whether the published value lies in our interval, where we are comparable.
-- docs/decisions.md, 0022, has the reasons.
with judged as (
    select
        claim,
        side,
        count(*) as cells,
        first(cell order by margin, cell) as cell,
        first(value order by margin, cell) as value,
        first(low order by margin, cell) as low,
        first(high order by margin, cell) as high,
        first(stderr order by margin, cell) as stderr,
        first(p order by margin, cell) as p,
        first(seeds order by margin, cell) as seeds,
        min(seeds) as fewest,
        max(deciding_seeds(stderr, seeds, margin)) as deciding,
        bool_and(comparable) as comparable,
        bool_or(high <= lower + 1e-9 or low >= upper - 1e-9) as outside,
        bool_or(low < lower - 1e-9 or high > upper + 1e-9) as undecided,
        bool_and(
            coalesce(low > lower, lower is null and high is not null)
            and coalesce(high < upper, upper is null and low is not null)
        ) as within,
        bool_or(
            value + factor * (high - value) < lower or value - factor * (value - low) > upper
        ) as against
    from weighed_cells
    group by claim, side
)

select
    k.claim,
    k.position,
    k.place,
    k.quote,
    k.statement,
    k.unit,
    k.lower,
    k.upper,
    k.published as published_value,
    t.value as published_recomputed,
    t.low as published_low,
    t.high as published_high,
    t.stderr as published_stderr,
    t.cell as published_cell,
    t.cells as published_cells,
    case
        when t.claim is null then 'figure only'
        when t.outside
            or t.low > cast(k.published as double) + 0.5 * 10.0 ^ -k.decimals + 1e-9
            or t.high < cast(k.published as double) - 0.5 * 10.0 ^ -k.decimals - 1e-9
            then 'contradicted'
        when t.undecided or round(t.value, k.decimals) <> cast(k.published as double)
            then 'within rounding'
        else 'supported'
    end as published_verdict,
    o.value as ours,
    o.stderr as ours_stderr,
    o.low as ours_low,
    o.high as ours_high,
    o.p,
    o.seeds,
    o.cell,
    o.cells,
    claim_verdict(o.within, o.against, o.fewest) as verdict,
    -- Seeds that would decide: at least so many; all that is known from a single one is the minimum.
    case when claim_verdict(o.within, o.against, o.fewest) in ('too few seeds', 'not significant')
        and o.fewest is not null
        then greatest(o.deciding, o.fewest + 1, least_seeds_of_claims()) end as seeds_wanted,
    case when o.comparable and k.published is not null
        then cast(k.published as double) between o.low and o.high end as value_agrees,
    k.reading
from paper_claims as k
left join judged as t on k.claim = t.claim and t.side = 'paper'
left join judged as o on k.claim = o.claim and o.side = 'ours'
order by k.position
