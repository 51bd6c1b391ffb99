-- Means of a method over its seeds that lie on another side of the baseline's mean than they do over the seeds
-- that both have. Of perplexities column_position is the domain's in table_perplexity; of accuracies it is null.
with by_run as (
    select scenario, model, method, seed, domain_position as column_position, perplexity as value
    from validation
    where final
    union all by name
    select v.scenario, v.model, v.method, v.seed, c.*
    from validation_averages as v
    cross join lateral (values (2000, v.perplexity), (2001, v.perplexity_of_mean)) as c (column_position, value)
    where v.final
    union all by name
    select scenario, model, method, seed, task, shots, formulation, metric, value
    from run_accuracies
),

averaged as (
    select *, avg(value order by seed) over (
        partition by scenario, model, method, column_position, task, shots, formulation, metric
    ) as mean
    from by_run
)

select a.* exclude (seed, value, mean)
from averaged as a
join averaged as b
    on (a.scenario, a.model, a.seed) = (b.scenario, b.model, b.seed)
    and (a.column_position, a.task, a.shots, a.formulation, a.metric)
    is not distinct from (b.column_position, b.task, b.shots, b.formulation, b.metric)
join experiment as e on b.method = e.baseline
group by all
-- Over the seeds that both have, and between the two means.
having sign(avg(a.value - b.value order by a.seed)) <> sign(any_value(a.mean) - any_value(b.mean))
order by all
