-- Every published number with ours beside it, by the names that ours play (published_names).
--
-- stderr: ours over seeds and items or documents. published_stderr: binomial where the number of items is
-- known, of one run (see printed); the paper gives none for perplexities and times. That run's seed was another one:
-- its number is as far from its mean as ours of one seed are. z: the difference over all of these errors, without
-- the paper's where that is unknown, which then makes z too large.
-- verdict:
--   not run         nothing of ours plays it
--   not comparable  data, models or recipes are not the paper's: signs may be compared, values not
--   agrees          the 95% interval of the difference (half_width_squared) holds zero, or the number is the same
--                   within the paper's rounding
--   too few seeds   else, over fewer than three: how seeds differ is not known
--   differs         otherwise; without an error of ours it cannot be told: `no error`
with timed as (
    unpivot (
        select scenario, model, method, published_model, published_method,
            if(published_scenario = 'glam', 'glam', 'mc4') as published_scenario,
            seconds / 3600 as train_hours, estimating / 3600 as pike_overhead_hours,
            100 * estimating / seconds as pike_overhead_pct
        from played_overheads
        where not single
    ) on train_hours, pike_overhead_hours, pike_overhead_pct into name metric value amount
),

times as (
    select scenario, model, method, published_scenario, published_model, published_method, metric,
        ordered_mean(amount) as value, stddev_samp(amount order by amount) / sqrt(count(*)) as error,
        error as of_seeds, count(*) as seeds
    from timed
    group by all
),

ours as (
    select * from played_scores
    union all by name
    select * from times
),

matched as (
    select
        p.*,
        o.scenario as our_scenario,
        o.model as our_model,
        o.method as our_method,
        o.shots as our_shots,
        o.value as ours,
        o.error,
        o.of_seeds,
        o.of_items,
        o.seeds,
        coalesce(y.yes, false) as comparable
    from printed as p
    left join ours as o
        on p.scenario = o.published_scenario and p.model = o.published_model
        and p.method = o.published_method and p.metric = o.metric
        and p.task is not distinct from o.task
        -- Tables 9 and 10 are about the number of demonstrations: none other stands in.
        and (p.shots is not distinct from o.shots or p.paper_table not in ('table9', 'table10'))
    left join comparable as y on o.scenario = y.scenario
    qualify row_number() over (
        partition by p.paper_table, p.scenario, p.model, p.params, p.method, p.metric, p.task, p.shots,
            o.scenario, o.model
        order by p.shots is not distinct from o.shots desc, o.shots desc
    ) = 1
)

select
    paper_table,
    scenario,
    model,
    params,
    method,
    metric,
    task,
    shots,
    value as published,
    stderr as published_stderr,
    our_scenario,
    our_model,
    our_method,
    our_shots,
    ours,
    error as stderr,
    seeds,
    ours - value as difference,
    case when comparable then (ours - value)
        / nullif(sqrt(m.error ^ 2 + coalesce(seeds * of_seeds ^ 2, 0) + coalesce(m.stderr, 0) ^ 2), 0) end as z,
    case
        when ours is null then 'not run'
        when not comparable or our_shots is distinct from shots then 'not comparable'
        when ours between low and high or z is not null and abs(difference) < sqrt(
            half_width_squared(of_seeds * sqrt(1 + seeds), seeds, of_items, null)
            + half_width_squared(null, null, m.stderr, null)
        ) then 'agrees'
        when z is null then 'no error'
        when seeds < least_seeds() then 'too few seeds'
        else 'differs'
    end as verdict
from matched as m
order by len(paper_table), paper_table, scenario, params, method, metric, task, shots, our_scenario, our_model
