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
        ordered_mean(adaptive) as adaptive,
        ordered_mean(best_static) as best_static,
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
        avg((before - plain) / (before - after) order by (before - plain) / (before - after)) filter (before - after > 1e-6 and plain < before)
            as granted
    from descent
    group by problem
),

cells as (
    select 0 as section_position, 'Example 1' as section, e.position as row_position,
        e.label as row_label, c.*
    from example as e
    cross join lateral (values
        (0, 'settings', e.settings, 0, null),
        (1, 'adaptive', e.adaptive, 4, null),
        (2, 'best static', e.best_static, 4, null),
        (3, 'adaptive ahead', e.ahead, 0, null)
    ) as c (column_position, column_label, value, decimals, text)
    union all
    select 1, 'Descent bound', dense_rank() over (order by p.problem), p.problem, c.*
    from problems as p
    cross join lateral (values
        (0, 'steps', p.steps, 0, null),
        (1, 'covered by the theorem', p.covered, 0, null),
        (2, 'above the printed bound', p.above_printed, 0, null),
        (3, 'above the mended bound', p.above_plain, 0, null),
        (4, 'gain granted', p.granted, 3, null)
    ) as c (place, label, value, decimals, text)
    union all
    select 2, 'Iterations', dense_rank() over (order by i.problem, i.method),
        i.problem || ', ' || i.method, c.*
    from theory_iterations as i
    cross join lateral (values
        (2 * (i.target = 'sum')::integer + (i.step_size = 'best')::integer,
            if(i.target = 'max', 'each small', 'all small')
            || if(i.step_size = 'best', ', best step size', ''),
            i.reached, 0, if(i.reached is null, 'not reached', null)),
        (4, if(i.bound is null, null, 'bound'), i.bound, 0, null)
    ) as c (place, label, value, decimals, text)
    where c.label is not null
)

select
    null::text as scenario,
    null::text as model,
    section,
    'statement' as kind,
    row_position,
    row_label,
    column_position,
    column_label,
    value::double as value,
    decimals,
    text
from cells
order by section_position, row_position, column_position
