-- How much sooner each method is where the baseline ends: trained tokens (in thousands) from which on its
-- mean validation loss, or mean accuracy, is at the baseline's last value or better, and how many times
-- fewer that is, with a 95% interval over documents and seeds. A method that falls back is not there.
with measured as (
    select *,
        quantity || coalesce(
            ', formulation ' || formulation || ', normalisation ' || metric || ', ' || shots
            || '-shot', ''
        ) as measure,
        case when ratio is null then 'not reached' else format('{:.2f}', ratio) end
        || case when high is null then ''
            else ' [' || coalesce(format('{:.2f}', low), 'not reached') || ', '
            || format('{:.2f}', high) || ']' end as speed
    from speedups
),

cells as (
    select scenario, model, method, quantity, measure, unnest([
        {'column_label': 'tokens', 'unit': 'thousands', 'value': tokens / 1000, 'decimals': 0,
         'text': if(tokens is null, 'not reached', null)},
        {'column_label': 'speed-up', 'unit': 'x', 'value': ratio, 'decimals': 2, 'text': speed},
        {'column_label': 'seeds', 'unit': null, 'value': seeds, 'decimals': 0, 'text': null}
    ]) as cell, unnest([0, 1, 2]) as place
    from measured
)

select
    c.scenario,
    c.model,
    c.method,
    c.scenario || ' / ' || c.model || ' / ' || c.measure as section,
    'method' as kind,
    m.position as row_position,
    c.method as row_label,
    c.place as column_position,
    unnest(c.cell)
from cells as c
join methods as m on c.method = m.method
join scenarios as s on c.scenario = s.scenario
order by
    s.position, c.model, c.quantity = 'accuracy', c.measure, m.position, c.method,
    column_position
