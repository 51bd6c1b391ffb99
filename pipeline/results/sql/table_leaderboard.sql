-- All methods over all scenarios: the mean over scenarios of the target loss minus that of the best static
-- mixture found (regret), the same minus that of the baseline, the scenario with the largest regret, runs that
-- collapsed, the cost in steps of the baseline, and the scenarios: those alone in which the oracle has runs.
-- Behind ± half of the 95% interval over seeds and documents.
--
-- cost and with others: those of steps_of_baseline, means over scenarios and seeds. significant and verdict: by the
-- test against the baseline, corrected (Holm) for all methods of the section.
with costs as (
    select c.model, c.method,
        mean_of_all(c.steps, c.steps) as steps, mean_of_all(c.with_others, c.with_others) as with_others
    from steps_of_baseline as c
    join runs as j using (scenario, model, seed)
    join experiment as e on j.method = e.oracle
    group by c.model, c.method
),

placed as (
    select
        model,
        method,
        r.method is null as is_oracle,
        row_number() over (partition by model order by coalesce(r.difference, 0), method) as row_position,
        r as regret,
        b as gain
    from (from leaderboard semi join experiment on against = oracle) as r
    full join (from leaderboard semi join experiment on against = baseline) as b using (model, method)
),

cells as (
    select p.model, p.method, p.row_position, p.is_oracle, c.*,
        if(c.column_position = 0, p.regret.seeds, p.gain.seeds) as pairs
    from placed as p
    cross join experiment as e
    left join costs as k using (model, method)
    cross join lateral (values
        (0, 'mean regret', 'nats', p.regret.difference, p.regret.high - p.regret.difference, 3, 'lower',
            shown(p.gain.seeds, p.gain.p_holm, -p.gain.difference), null),
        (1, 'largest regret', 'nats', p.regret.worst, null, 3, null, null, null),
        (2, 'on', null, null, null, 0, null, null, p.regret.worst_scenario),
        (3, 'against ' || e.baseline, 'nats', p.gain.difference, p.gain.high - p.gain.difference, 3, null, null,
            null),
        (4, 'verdict', null, null, null, 0, null, null,
            test_in_words(p.gain.seeds, p.gain.p_holm, -p.gain.difference, p.gain.stderr)),
        (5, 'collapses', null, coalesce(p.regret.collapses, p.gain.collapses), null, 0, null, null, null),
        (6, 'cost', 'steps of ' || e.baseline, k.steps, null, 0, null, null, null),
        (7, 'with others', 'steps of ' || e.baseline, k.with_others, null, 0, null, null, null),
        (8, 'scenarios', null, coalesce(p.regret.scenarios, p.gain.scenarios), null, 0, null, null, null),
        (9, 'seeds', null, coalesce(p.regret.seeds, p.gain.seeds), null, 0, null, null, null)
    ) as c(column_position, column_label, unit, value, error, decimals, better, significant, text)
    union all
    select p.model, p.method, p.row_position, p.is_oracle, 100 + s.position, d.scenario, 'nats',
        d.nll_difference, d.nll_high - d.nll_difference, 3, 'lower', false, null, d.seeds
    from placed as p
    join experiment as e on true
    join method_differences as d on p.model = d.model and p.method = d.method and d.against = e.oracle
    join scenarios as s using (scenario)
)

select
    null as scenario,
    c.model,
    c.method,
    case when c.column_position < 100 then 'all scenarios / ' else 'regret by scenario / ' end || c.model as section,
    case when c.is_oracle then 'reference' else 'method' end as kind,
    c.row_position,
    c.method as row_label,
    c.* exclude (model, method, row_position, is_oracle) replace (coalesce(c.significant, false) as significant)
from cells as c
order by c.model, c.column_position >= 100, c.row_position, c.column_position
