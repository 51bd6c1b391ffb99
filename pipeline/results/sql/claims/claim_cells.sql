-- Every number that a claim is decided by: the paper's (side `paper`) and ours, each with its interval, in
-- the claim's own unit. A claim over several scenarios or methods has one row for each.
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
)

select * from claim_pairs
union all by name
select * from claim_transfer
union all by name
select * from claim_speed
union all by name
select * from claim_example
union all by name
select *, 'ours' as side, value - t95(seeds - 1) * stderr as low, value + t95(seeds - 1) * stderr as high,
    stderr as seed_stderr
from erring
union all by name
select 'overhead' as claim, 'time' as quantity, 'paper' as side, scenario, model, 'pike' as method,
    scenario || ', ' || params as cell, value, low, high
from printed
where metric = 'pike_overhead_pct'
order by claim, side, cell
