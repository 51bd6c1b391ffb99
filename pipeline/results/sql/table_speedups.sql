-- How much sooner each method is where the baseline ends: trained tokens (in thousands) at which its
-- mean validation loss, or mean accuracy, first reaches the baseline's last value, and how many times
-- fewer that is, with a 95% interval over documents and seeds. A first crossing favours curves that
-- jump: one of accuracies on few items reads high.
with cells as (
    select
        scenario, model, method, quantity,
        case when quantity = 'loss' then quantity
            else quantity || ', formulation ' || formulation || ', normalisation ' || metric
            || ', ' || shots || '-shot' end as measure,
        0 as column_position, 'tokens' as column_label, 'thousands' as unit,
        tokens / 1000 as value, 0 as decimals,
        case when tokens is null then 'not reached' end as text
    from speedups
    union all
    select
        scenario, model, method, quantity,
        case when quantity = 'loss' then quantity
            else quantity || ', formulation ' || formulation || ', normalisation ' || metric
            || ', ' || shots || '-shot' end,
        1, 'speed-up', 'x', ratio, 2,
        case when ratio is null then 'not reached' else format('{:.2f}', ratio) end
        || case when high is null then ''
            else ' [' || coalesce(format('{:.2f}', low), 'not reached') || ', '
            || format('{:.2f}', high) || ']' end
    from speedups
    union all
    select
        scenario, model, method, quantity,
        case when quantity = 'loss' then quantity
            else quantity || ', formulation ' || formulation || ', normalisation ' || metric
            || ', ' || shots || '-shot' end,
        2, 'seeds', null, seeds, 0, null
    from speedups
)

select
    c.scenario,
    c.model,
    c.method,
    c.scenario || ' / ' || c.model || ' / ' || c.measure as section,
    'method' as kind,
    m.position as row_position,
    c.method as row_label,
    c.column_position,
    c.column_label,
    c.unit,
    c.value,
    c.decimals,
    c.text
from cells as c
join methods as m on c.method = m.method
join scenarios as s on c.scenario = s.scenario
order by
    s.position, c.model, c.quantity = 'accuracy', c.measure, m.position, c.method,
    c.column_position
