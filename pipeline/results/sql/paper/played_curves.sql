-- Mean accuracy over tasks and mean perplexity over domains while training goes on, of the runs that play
-- a part of the paper: means over seeds; low and high: the ends of the 95% interval over seeds and
-- documents or items, as in the tables.
--
-- Accuracy is over mean_tasks, with as many demonstrations as the paper's
-- main tables have, or with the largest number that was asked where none was asked with as many.
with printed_shots as (
    select scenario, max(shots) as shots
    from paper
    where paper_table in ('table1', 'table2', 'table13', 'table14')
    group by scenario
),

asked as (
    select p.run, p.published_method, a.step, a.task, a.shots, a.formulation, a.metric, a.value, a.stderr
    from played_runs as p
    join headline_accuracies as a using (run)
    join mean_tasks as n using (scenario, task)
    left join printed_shots as s on p.published_scenario = s.scenario
    window own as (partition by p.run, p.published_method)
    qualify a.shots = coalesce(max(a.shots) filter (a.shots = s.shots) over own, max(a.shots) over own)
),

scores as (
    select run, published_method, step, 'accuracy' as quantity, shots, formulation, metric,
        avg(value order by task) as value, mean_error(stderr, task) as stderr
    from asked
    group by all
    union all
    select p.run, p.published_method, v.step, 'perplexity', null, null, null, v.perplexity,
        v.perplexity_stderr
    from played_runs as p
    join validation_averages as v using (run)
)

select
    p.scenario,
    p.model,
    p.method,
    p.published_scenario,
    p.published_model,
    p.published_method,
    s.quantity,
    s.shots,
    s.formulation,
    s.metric,
    s.step,
    avg(s.value order by s.run) as value,
    half_over_seeds(s.value, s.stderr, s.run) as error,
    avg(s.value order by s.run) - error as low,
    avg(s.value order by s.run) + error as high,
    count(*) as seeds
from scores as s
join curve_runs using (run)
join played_runs as p using (run, published_method)
group by all
order by p.scenario, p.model, p.method, p.published_method, s.quantity, s.step
