-- Every number that a claim is decided by: the paper's (side `paper`) and ours, each with its interval, in
-- the claim's own unit, beside the claim's bounds. margin: how far inside them it lies (below zero: outside). A claim
-- over several scenarios or methods has one row for each. Claims about scale ask for the paper's own sizes.
--
-- What stands under several of the paper's names, or in the place of several numbers of demonstrations, is one number.
--
-- Ours are means over seeds: seed_stderr is their error from the spread of seeds, item_stderr that from the
-- choice of documents or items, which all seeds share. p: where a test of its own gave it (speedups).
with by_seed as (
    select *, 'cosine' as quantity from claim_gradients
    union all by name
    select *, 'time' as quantity from claim_times
),

summed as (
    select claim, quantity, scenario, model, our_scenario, our_scenario || ' / ' || our_model || ', ' || of_what
        as cell, avg(value order by seed) as value, count(*) as seeds,
        stddev_samp(value order by seed) / sqrt(seeds) as spread
    from by_seed
    group by all
),

-- Shares of pairs have few values, so that seeds may agree by chance: `share` says of which (claim_tests.py).
erring as (
    select * exclude (spread), starts_with(claim, 'low-conflict-') as share,
        if(share and seeds > 1, greatest(spread, share_error(value, seeds)), spread) as stderr
    from summed
),

cells as (
    select * from claim_pairs
    union all by name
    select * from claim_transfer
    union all by name
    select * from claim_speed
    union all by name
    -- The claim that in Example 1 the best static mixture in hindsight ends above adaptive mixing. The error of the
    -- simulation is as good as known (thousands of paths).
    select 'example-adaptive-over-static' as claim, 'loss' as quantity, 'ours' as side, 'adaptive' as method,
        'static' as against, setting as cell, best_static - adaptive as value, best_static - high as low,
        best_static - low as high, (high - low) / 2 / t95('infinity'::double) as item_stderr
    from theory_example_settings
    union all by name
    select *, 'ours' as side, value - t95(seeds - 1) * stderr as low, value + t95(seeds - 1) * stderr as high,
        stderr as seed_stderr
    from erring
    union all by name
    select 'overhead' as claim, 'time' as quantity, 'paper' as side, scenario, model, 'pike' as method,
        scenario || ', ' || params as cell, value, low, high
    from printed
    where metric = 'pike_overhead_pct'
)

select
    c.*,
    k.lower,
    k.upper,
    -- Equal accuracies may differ by 1e-16, which depends on the order in which items were added up.
    round(least(
        coalesce(c.value - k.lower, 'infinity'::double),
        coalesce(k.upper - c.value, 'infinity'::double)
    ), 12) as margin,
    coalesce(y.yes, false) as comparable
from (select distinct on (claim, side, cell) * from cells order by claim, side, cell, shots, scenario, model) as c
join paper_claims as k using (claim)
left join comparable as y on c.our_scenario = y.scenario
where c.value is not null and (c.side = 'paper' or not k.at_scale or coalesce(y.yes, false))
order by c.claim, c.side, margin, c.cell, c.shots
