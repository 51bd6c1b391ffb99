-- How large a difference to the baseline the seeds, documents and items of the runs can show: what a test at
-- 5% finds with a probability of 80%, if seeds go on to differ as they do. Behind it the difference that was
-- found. Losses in nats per token, accuracies in points of the mean over tasks, under the headline score.
--
-- One seed says nothing of how seeds differ: no number.
with headline as (
    select distinct shots, formulation, metric from headline_accuracies
),

found as (
    select scenario, model, method, 'mean loss' as quantity, 'nats' as unit, 3 as decimals, seeds,
        nll_seed_sd as seed_sd, detectable(nll_seed_sd, seeds, nll_document_stderr) as least,
        nll_difference as difference, nll_stderr as error
    from method_differences as d
    join experiment as e on d.against = e.baseline
    union all
    select t.scenario, t.model, t.method, 'mean accuracy, ' || t.shots || '-shot', 'points', 1, t.seeds,
        t.seed_sd, detectable(t.seed_sd, t.seeds, sqrt(greatest(0, t.stderr ^ 2 - t.seed_sd ^ 2 / t.seeds))),
        t.difference, t.stderr
    from accuracy_tests as t
    join experiment as e on t.against = e.baseline
    join headline as h on t.shots = h.shots and t.formulation = h.formulation and t.metric = h.metric
    where t.task = 'mean'
)

select
    f.scenario,
    f.model,
    f.method,
    f.scenario || ' / ' || f.model || ' / ' || f.quantity as section,
    'method' as kind,
    m.position as row_position,
    f.method as row_label,
    c.position as column_position,
    c.label as column_label,
    if(c.position = 0, null, f.unit) as unit,
    case c.position when 0 then f.seeds when 1 then f.seed_sd when 2 then f.least else f.difference end as value,
    if(c.position = 3, f.error, null) as error,
    if(c.position = 0, 0, f.decimals) as decimals
from found as f
join methods as m on f.method = m.method
join scenarios as s on f.scenario = s.scenario
cross join (
    values (0, 'seeds'), (1, 'SD of seeds'), (2, 'detectable'), (3, 'found')
) as c (position, label)
order by s.position, f.model, f.quantity desc, m.position, c.position
