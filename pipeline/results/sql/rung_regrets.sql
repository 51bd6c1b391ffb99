-- The regret of every run on a ladder of budgets. A rung is a model and a number of training tokens; scenarios that
-- are `like` another stand under its name. Rungs are in the order of parameters and tokens. weights: those that the
-- run ended with, by which one run that stands in two scenarios is known.
with runs_of_rungs as (
    select
        r.run,
        coalesce(json_extract_string(e.config, '$.scenarios."' || r.scenario || '".like'), r.scenario) as scenario,
        r.model,
        r.tokens,
        r.parameters,
        r.method,
        r.seed,
        v.nll - o.nll as regret,
        coalesce(r.weights_sha256, r.run) as weights
    from runs as r
    join experiment as e on r.method <> e.oracle
    join validation_averages as v on r.run = v.run and v.final
    join validation_averages as o
        on r.scenario = o.scenario and r.model = o.model and r.seed = o.seed and o.method = e.oracle and o.final
),

rungs as (
    select model, tokens, row_number() over (order by min(parameters), model, tokens) as position
    from runs_of_rungs
    group by model, tokens
)

select
    u.run,
    u.scenario,
    u.method,
    u.seed,
    g.position as rung,
    u.model || ', ' || printf('%,d', u.tokens // 1000) || 'k' as rung_label,
    u.regret,
    u.weights
from runs_of_rungs as u
join rungs as g using (model, tokens)
order by u.run
