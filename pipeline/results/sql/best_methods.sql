-- One row per scenario and model: the method with the lowest mean validation loss, and whether its
-- lead over the baseline stands by `method_differences`' interval (verdict_rules.sql: lead_verdict).
-- best_arithmetic is the best by the paper's average, the arithmetic mean of perplexities.
with ranked as (
    select
        a.*,
        m.position as method_position,
        row_number() over (
            partition by a.scenario, a.model order by a.nll, m.position
        ) as by_loss,
        row_number() over (
            partition by a.scenario, a.model order by a.perplexity, m.position
        ) as by_perplexity
    from method_averages as a
    join methods as m using (method)
),

best as (select * from ranked where by_loss = 1),

arithmetic as (select * from ranked where by_perplexity = 1)

select
    b.scenario,
    b.model,
    e.baseline,
    b.method as best,
    b.seeds,
    b.nll,
    b.perplexity,
    b.perplexity_of_mean,
    d.nll_difference,
    d.nll_low,
    d.nll_high,
    d.seeds_better,
    d.seeds as paired_seeds,
    a.method as best_arithmetic,
    a.perplexity as best_arithmetic_perplexity,
    lead_verdict(b.method = e.baseline, d.seeds, d.nll_low, d.nll_high) as verdict
from best as b
cross join experiment as e
join arithmetic as a using (scenario, model)
left join method_differences as d
    on b.scenario = d.scenario and b.model = d.model and b.method = d.method
    and d.against = e.baseline
join scenarios as s using (scenario)
order by s.position, b.model
