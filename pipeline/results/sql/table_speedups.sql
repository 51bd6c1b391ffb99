-- How much sooner each method is where the baseline ends: trained tokens (in thousands) from which on its
-- mean validation loss, or mean accuracy, is at the baseline's last value or better, and how many times
-- fewer that is, with a 95% interval over documents and seeds. A method that falls back is not there.
with measured as (
    select *,
        quantity || coalesce(
            ', formulation ' || formulation || ', normalisation ' || metric || ', ' || shots
            || '-shot', ''
        ) as measure,
        speed(ratio, '{:.2f}') || speeds(low, high, '{:.2f}') as told
    from speedups
)

select
    r.* exclude (scenario_position) replace (r.section || ' / ' || m.measure as section),
    c.*
from measured as m
join method_rows as r using (scenario, model, method)
cross join lateral (values
    (0, 'tokens', 'thousands', m.tokens / 1000, 0, if(m.tokens is null, 'not reached', null), false),
    (1, 'speed-up', 'x', m.ratio, 2, m.told, m.seeds = 1 and m.high is not null),
    (2, 'seeds', null, m.seeds, 0, null, false)
) as c (column_position, column_label, unit, value, decimals, text, one_seed)
order by
    r.scenario_position, r.model, m.quantity = 'accuracy', m.measure, r.row_position, r.method,
    c.column_position
