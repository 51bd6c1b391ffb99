-- How alike two rungs rank the methods: Kendall's tau-b of the regrets of one scenario and seed, its mean over
-- seeds and, where scenario is null, the mean of these over scenarios, each with its 95% interval.
--
-- tau = sum s_ij t_ij / sqrt(sum s_ij^2 * sum t_ij^2) over pairs of methods i and j, s and t the signs of their
-- differences on the two rungs. Intervals are Student's t, over seeds or over scenarios: the latter speaks of
-- other scenarios of this kind, too. Where all are alike there is none: nothing tells how others differ. Rungs are
-- compared on the methods that both have.
with signs as (
    select
        a.scenario,
        a.seed,
        a.rung,
        a.rung_label,
        a.method as method_a,
        b.method as method_b,
        sign(a.regret - b.regret) as sign
    from rung_regrets as a
    join rung_regrets as b
        on a.scenario = b.scenario and a.seed = b.seed and a.rung = b.rung and a.method < b.method
),

single as (
    select
        a.scenario,
        a.seed,
        a.rung as rung_a,
        a.rung_label as label_a,
        b.rung as rung_b,
        b.rung_label as label_b,
        sum(a.sign * b.sign) / nullif(sqrt(sum(a.sign ^ 2) * sum(b.sign ^ 2)), 0) as tau
    from signs as a
    join signs as b
        on a.scenario = b.scenario and a.seed = b.seed and a.method_a = b.method_a and a.method_b = b.method_b
            and a.rung < b.rung
    group by all
),

-- Scenarios whose runs on one of two rungs are the same runs are one.
trained as (
    select scenario, rung, min(scenario) over (partition by rung, weights) as first_scenario
    from (
        select scenario, rung, string_agg(weights, ' ' order by method, seed) as weights
        from rung_regrets
        group by scenario, rung
    )
),

by_scenario as (
    select scenario, rung_a, label_a, rung_b, label_b, ordered_mean(tau) as tau, count(tau) as units, stddev_samp(tau order by tau) as sd
    from single
    group by all
),

apart as (
    select s.rung_a, s.label_a, s.rung_b, s.label_b, avg(s.tau order by s.scenario) as tau
    from by_scenario as s
    join trained as a on s.scenario = a.scenario and s.rung_a = a.rung
    join trained as b on s.scenario = b.scenario and s.rung_b = b.rung
    group by s.rung_a, s.label_a, s.rung_b, s.label_b, least(a.first_scenario, b.first_scenario)
),

over_scenarios as (
    select
        null as scenario, rung_a, label_a, rung_b, label_b, ordered_mean(tau) as tau, count(tau) as units,
        stddev_samp(tau order by tau) as sd
    from apart
    group by rung_a, label_a, rung_b, label_b
)

select
    *,
    tau - half_of_mean(nullif(sd, 0), units) as low,
    tau + half_of_mean(nullif(sd, 0), units) as high
from (select * from by_scenario union all select * from over_scenarios)
order by scenario nulls first, rung_a, rung_b
