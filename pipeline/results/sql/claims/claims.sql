-- Every quantitative sentence of the paper, what its own numbers say about it, and what ours say.
--
-- A sentence says that a number lies between `lower` and `upper`; where it speaks of several (all
-- baselines, all sizes), the one that speaks most against it is shown; `cells` counts them and
-- `cells_within` those within the bounds. published_verdict, of the paper's own numbers:
--   supported       they lie within the bounds and give the published number, whatever their rounding
--   within rounding they do so only for some of what rounds to them (equal numbers, too)
--   contradicted    for none of it
--   figure only     there are none in print
-- published_stderr says how much chance there is in them. verdict, of ours, by p_holm: the probability
-- that seeds and items alone put all numbers within the bounds, or one of them outside, corrected (Holm)
-- for all claims that were tested (claim_tests.py):
--   supported       all numbers lie within the bounds, and p_holm is below 0.05
--   contradicted    one over three seeds or more lies outside, and p_holm is below 0.05
--   not significant p_holm is not
--   too few seeds   else a number is over fewer than three: documents say nothing about other seeds
--   not run         no such runs, or a claim about scale that only the paper's own sizes can test
-- seeds_wanted says how many would decide, before the correction, if seeds go on to differ as they do;
-- it is null where 1,000 would not, or how seeds differ is not known.
-- value_agrees: whether the published value lies in our interval, where we are comparable.
-- docs/decisions.md, 0022, has the reasons.
with judged as (
    select
        claim,
        side,
        count(*) as cells,
        count(*) filter (margin > 0) as cells_within,
        first(columns('^(cell|value|low|high|stderr|seeds)$') order by weak, margin, cell),
        min(seeds) as fewest,
        bool_and(comparable) as comparable,
        bool_or(high <= lower + 1e-9 or low >= upper - 1e-9) as outside,
        bool_or(low < lower - 1e-9 or high > upper + 1e-9) as undecided
    from (
        -- A number outside the bounds comes first, over seeds enough before others.
        select *, margin > 0 or coalesce(seeds < least_seeds(), false) as weak from deciding_cells
    )
    group by claim, side
),

decided as (
    select o.*, t.p, t.p_holm, t.deciding,
        claim_verdict(o.cells_within = o.cells, t.p_holm, o.fewest) as verdict
    from judged as o
    left join claim_tests as t using (claim)
    where o.side = 'ours'
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
    o.p_holm,
    o.seeds,
    o.cell,
    o.cells,
    o.cells_within,
    coalesce(o.verdict, 'not run') as verdict,
    -- At least so many; all that is known from a single one is the minimum.
    case when o.verdict in ('too few seeds', 'not significant')
        and (o.deciding is not null or o.fewest < least_seeds())
        then greatest(
            o.deciding, if(o.cells_within = o.cells, o.fewest, o.seeds) + 1, least_seeds()
        ) end as seeds_wanted,
    case when o.comparable and k.published is not null
        then cast(k.published as double) between o.low and o.high end as value_agrees,
    k.reading
from paper_claims as k
left join judged as t on k.claim = t.claim and t.side = 'paper'
left join decided as o on k.claim = o.claim
order by k.position
