-- A method's target loss minus another's in each scenario, mean over their common seeds, of all pairs of
-- methods that the experiment compares on seeds that it asks for. board: whether the scenario has a target.
with entries as (
    select unnest(from_json(config -> 'runs', '[{"methods": ["VARCHAR"], "seeds": ["INTEGER"]}]'), recursive := true)
    from experiment
),

asked as (
    select distinct m.method, s.seed
    from entries as e
    cross join lateral unnest(e.methods) as m (method)
    cross join lateral unnest(e.seeds) as s (seed)
),

split as (
    select scenario, case when min(target) < max(target) then 'target' else 'no target' end as board
    from domains
    group by scenario
),

losses as (
    select v.scenario, b.board, v.model, v.method, v.seed, v.nll
    from validation_averages as v
    join split as b using (scenario)
    join asked as a using (method, seed)
    where v.final
)

select
    a.board,
    a.scenario,
    a.model,
    a.method,
    b.method as against,
    count(*) as seeds,
    avg(a.nll - b.nll order by a.seed) as difference
from losses as a
join losses as b using (scenario, model, seed)
where a.method <> b.method
group by a.board, a.scenario, a.model, a.method, b.method
order by a.board, a.model, a.method, b.method, a.scenario
