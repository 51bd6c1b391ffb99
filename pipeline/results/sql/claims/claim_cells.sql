-- Every number that a claim is decided by: the paper's (side `paper`) and ours, each with its interval, in
-- the claim's own unit. A claim over several scenarios or methods has one row for each. degrees: of freedom
-- of the interval, where it is not over seeds.
select * from claim_pairs
union all by name
select * from claim_overhead
union all by name
select * from claim_gradients
union all by name
select * from claim_speed
union all by name
select * from claim_example
order by claim, side, cell
