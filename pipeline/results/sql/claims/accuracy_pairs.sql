-- Mean accuracies of two methods, the paper's and ours, by the paper's names: by how many percent of the
-- other's (`against`) the method's is higher, 100 (a / b - 1).
--
-- low and high: of the paper what its rounding leaves open, of ours the paired 95% interval of
-- mean_accuracy_tests over the other's mean of the same seeds, which counts as known. stderr: of the paper binomial and
-- unpaired (see printed), an upper bound for runs on the same items; of ours paired. Ours was asked with
-- as many demonstrations as the paper's, or with the number that stands in for it (paper_columns).
with means as (
    select distinct scenario, model, params, method, shots, value, low, high, stderr
    from printed
    where metric = 'accuracy' and task = 'average'
),

theirs as (
    select
        'paper' as side,
        a.scenario,
        a.model,
        a.shots,
        a.method,
        b.method as against,
        a.scenario || ', ' || a.params || ', ' || a.shots || '-shot: ' || a.method || ' over '
            || b.method as cell,
        100 * (a.value / b.value - 1) as value,
        100 * (a.low / b.high - 1) as low,
        100 * (a.high / b.low - 1) as high,
        100 * sqrt(a.stderr ^ 2 + b.stderr ^ 2) / b.value as stderr,
        null::double as p,
        null::bigint as seeds,
        null::text as our_scenario
    from means as a
    join means as b
        on a.scenario = b.scenario and a.model = b.model and a.params = b.params
        and a.shots = b.shots and a.method <> b.method
),

asked as (
    select distinct scenario, published_scenario, printed_shots, shots
    from paper_columns
    where metric = 'accuracy' and task = 'average' and shots is not null
),

answered as (
    select distinct p.scenario, p.model, p.method, p.seed, h.shots, h.formulation, h.metric, h.task,
        h.value
    from played_runs as p
    join headline_accuracies as h on p.run = h.run and h.final
    join published_names as n on n.kind = 'task' and h.task = n.ours
),

others as (
    select a.scenario, a.model, a.method, b.method as against, a.shots, a.formulation, a.metric,
        avg(b.value order by b.seed, b.task) as value
    from answered as a
    join answered as b
        on a.scenario = b.scenario and a.model = b.model and a.seed = b.seed and a.shots = b.shots
        and a.formulation = b.formulation and a.metric = b.metric and a.task = b.task
        and a.method <> b.method
    group by all
),

ours as (
    select
        'ours' as side,
        a.published_scenario as scenario,
        a.published_model as model,
        q.printed_shots as shots,
        a.published_method as method,
        b.published_method as against,
        t.scenario || ' / ' || t.model || ', ' || t.shots || '-shot: ' || t.method || ' over '
            || t.against as cell,
        100 * t.difference / o.value as value,
        100 * t.low / o.value as low,
        100 * t.high / o.value as high,
        100 * t.stderr / o.value as stderr,
        t.p,
        t.seeds,
        t.scenario as our_scenario
    from mean_accuracy_tests as t
    join played_parts as a
        on t.scenario = a.scenario and t.model = a.model and t.method = a.method
    join played_parts as b
        on t.scenario = b.scenario and t.model = b.model and t.against = b.method
        and a.published_scenario = b.published_scenario
        and a.published_model = b.published_model
    join asked as q
        on t.scenario = q.scenario and a.published_scenario = q.published_scenario
        and t.shots = q.shots
    join others as o
        on t.scenario = o.scenario and t.model = o.model and t.method = o.method
        and t.against = o.against and t.shots = o.shots and t.formulation = o.formulation
        and t.metric = o.metric
)

select 'accuracy' as quantity, * from theirs
union all
select 'accuracy', * from ours
order by side, scenario, model, shots, method, against, cell
