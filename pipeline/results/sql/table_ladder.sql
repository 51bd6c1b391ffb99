-- A ladder of sizes and budgets: how alike two rungs rank the methods (Kendall's tau of the regrets, mean over
-- seeds and scenarios), each rung beside the largest one by scenario, and the mean regret of every method on each
-- rung. A rung is a model and its training tokens. Behind ± half of the 95% interval: over scenarios, in the other
-- two parts over seeds.
with largest as (
    select rung, rung_label from rung_regrets order by rung desc limit 1
),

by_seed as (
    select method, seed, rung, rung_label, avg(regret order by scenario) as regret, count(*) as scenarios
    from rung_regrets
    group by method, seed, rung, rung_label
),

regrets as (
    select
        method, rung, rung_label, ordered_mean(regret) as regret, half_over(regret) as half
    from by_seed
    where scenarios = (select max(scenarios) from by_seed)
    group by method, rung, rung_label
),

cells as (
    select
        0 as part, 'rank correlation' as section, null as method, 'statement' as kind, rung_a as row_position,
        label_a as row_label, rung_b as column_position, label_b as column_label, null as unit, tau as value,
        high - tau as error, 2 as decimals, null as better
    from rank_correlations
    where scenario is null
    union all
    select
        1, 'rank correlation with ' || c.label_b, null, 'statement', c.rung_a, c.label_a, s.position, c.scenario,
        null, c.tau, c.high - c.tau, 2, null
    from rank_correlations as c
    join largest as l on c.rung_b = l.rung
    join scenarios as s using (scenario)
    union all
    select 2, 'mean regret', r.method, 'method', m.position, r.method, r.rung, r.rung_label, 'nats', r.regret, r.half,
        3, 'lower'
    from regrets as r
    join methods as m using (method)
)

select null as scenario, null as model, * exclude (part)
from cells
order by part, row_position, column_position
