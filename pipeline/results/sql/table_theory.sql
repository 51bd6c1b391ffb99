-- The paper's theory, checked with numbers. Example 1: the last expected loss under the mixture that
-- is best for the next step beside that of the static mixture that is best in hindsight. Descent
-- bound: how often the loss after a step lies above the bound as printed, and above the one with the
-- Lipschitz constant of the losses' sum and no beta; gain granted is the mean share of a step's gain
-- that the second promises. Iterations: steps until the gradients are small, each or all together, at
-- the theorem's step size and at the best of its doublings.
with example as (
    select
        case setting when 'figure 3' then 0 when 'noise in one task alone' then 2 else 1 end
            as position,
        case position when 1 then 'a grid around it, means' else setting end as label,
        count(*) as settings,
        avg(adaptive) as adaptive,
        avg(best_static) as best_static,
        count(*) filter (ahead) as ahead
    from theory_example_settings
    group by all
),

descent as (
    -- What is simulated alone is above a bound where it is so by 4 standard errors.
    select
        *,
        coalesce(expected, simulated) as after,
        case when expected is null then 4 * stderr else 1e-9 end as error
    from theory_descent
),

problems as (
    select
        problem,
        count(*) as steps,
        count(*) filter (applies) as covered,
        count(*) filter (applies and after > printed + error) as above_printed,
        count(*) filter (after > plain + error) as above_plain,
        avg((before - plain) / (before - after)) filter (before - after > 1e-6 and plain < before)
            as granted
    from descent
    group by problem
),

cells as (
    select 0 as section_position, 'Example 1' as section, position as row_position, label as row_label,
        unnest([
            {'i': 0, 'label': 'settings', 'value': settings, 'decimals': 0, 'text': null},
            {'i': 1, 'label': 'adaptive', 'value': adaptive, 'decimals': 4, 'text': null},
            {'i': 2, 'label': 'best static', 'value': best_static, 'decimals': 4, 'text': null},
            {'i': 3, 'label': 'adaptive ahead', 'value': ahead, 'decimals': 0, 'text': null}
        ]) as cell
    from example
    union all
    select 1, 'Descent bound', row_number() over (order by problem), problem,
        unnest([
            {'i': 0, 'label': 'steps', 'value': steps, 'decimals': 0, 'text': null},
            {'i': 1, 'label': 'covered by the theorem', 'value': covered, 'decimals': 0, 'text': null},
            {'i': 2, 'label': 'above the printed bound', 'value': above_printed, 'decimals': 0,
             'text': null},
            {'i': 3, 'label': 'above the mended bound', 'value': above_plain, 'decimals': 0,
             'text': null},
            {'i': 4, 'label': 'gain granted', 'value': granted, 'decimals': 3, 'text': null}
        ])
    from problems
    union all
    select 2, 'Iterations', dense_rank() over (order by problem, method), problem || ', ' || method,
        {'i': 2 * (target = 'sum')::integer + (step_size = 'best')::integer,
         'label': case target when 'max' then 'each small' else 'all small' end
             || case step_size when 'best' then ', best step size' else '' end,
         'value': reached, 'decimals': 0, 'text': if(reached is null, 'not reached', null)}
    from theory_iterations
    union all
    select 2, 'Iterations', dense_rank() over (order by problem, method), problem || ', ' || method,
        {'i': 4, 'label': 'bound', 'value': bound, 'decimals': 0, 'text': null}
    from theory_iterations
    where step_size = 'theorem'
    qualify bound is not null
)

select
    null::text as scenario,
    null::text as model,
    section,
    'statement' as kind,
    row_position,
    row_label,
    cell.i as column_position,
    cell.label as column_label,
    cell.value::double as value,
    cell.decimals as decimals,
    cell.text as text
from cells
order by section_position, row_position, column_position
