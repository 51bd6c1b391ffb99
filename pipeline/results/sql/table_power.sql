-- How large a difference to the baseline the seeds, documents and items of the runs can show: what a test at
-- 5% finds with a probability of 80%, if seeds go on to differ as they do. Behind it the difference that was
-- found, ± half of its 95% interval. Losses in nats per token, accuracies in points of the mean over tasks, under the headline score.
--
-- No number where seeds are too few for a verdict.
with found as (
    select scenario, model, method, 'mean loss' as quantity, 'nats' as unit, 3 as decimals, seeds,
        nll_seed_sd as seed_sd, detectable(nll_seed_sd, seeds, nll_document_stderr) as least,
        nll_difference as difference, (nll_high - nll_low) / 2 as half
    from method_differences
    semi join experiment on against = baseline
    union all
    select t.scenario, t.model, t.method, 'mean accuracy, ' || t.shots || '-shot', 'points', 1, t.seeds,
        t.seed_sd, detectable(t.seed_sd, t.seeds, t.item_stderr),
        t.difference, (t.high - t.low) / 2
    from baseline_tests as t
    semi join headline_accuracies using (shots, formulation, metric)
    where t.task = 'mean'
)

select
    r.* exclude (scenario_position) replace (r.section || ' / ' || f.quantity as section),
    c.*,
    f.seeds as pairs
from found as f
join method_rows as r using (scenario, model, method)
cross join lateral (values
    (0, 'seeds', null, f.seeds, null, 0),
    (1, 'SD of seeds', f.unit, f.seed_sd, null, f.decimals),
    (2, 'detectable', f.unit, f.least, null, f.decimals),
    (3, 'found', f.unit, f.difference, f.half, f.decimals)
) as c (column_position, column_label, unit, value, error, decimals)
order by r.scenario_position, r.model, f.quantity desc, r.row_position, c.column_position
