-- How much more evenly a method learns its domains than another (`against`): the other's standard
-- deviation of the losses over domains less the method's, in nats; the paper's and ours, by its names.
--
-- The paper prints perplexities: their logarithms are the losses. low and high: what its rounding leaves
-- open at most; of ours the 95% interval over seeds (Student's t), none for one seed.
with losses as (
    select distinct scenario, model, params, method, task, ln(value) as nll,
        (high - low) / 2 / value as half
    from printed
    where metric = 'perplexity' and task <> 'average'
),

spreads as (
    select scenario, model, params, method, stddev_pop(nll order by task) as spread,
        max(half) as half
    from losses
    group by all
),

theirs as (
    select
        'paper' as side,
        a.scenario,
        a.model,
        a.method,
        b.method as against,
        a.scenario || ', ' || a.params || ': ' || a.method || ' under ' || b.method as cell,
        b.spread - a.spread as value,
        b.spread - a.spread - a.half - b.half as low,
        b.spread - a.spread + a.half + b.half as high,
        null::double as stderr,
        null::bigint as seeds,
        null::text as our_scenario
    from spreads as a
    join spreads as b
        on a.scenario = b.scenario and a.model = b.model and a.params = b.params
        and a.method <> b.method
),

runs_spread as (
    select p.run, p.scenario, p.model, p.method, p.seed, p.published_scenario, p.published_model,
        p.published_method, stddev_pop(v.nll order by v.domain) as spread
    from played_runs as p
    join validation as v on p.run = v.run and v.final
    where not p.single
    group by all
),

differences as (
    select a.scenario as our_scenario, a.model as our_model, a.method as our_method,
        b.method as other, a.published_scenario, a.published_model, a.published_method,
        b.published_method as published_other,
        avg(b.spread - a.spread) as value,
        stddev_samp(b.spread - a.spread) / sqrt(count(*)) as stderr,
        count(*) as seeds
    from runs_spread as a
    join runs_spread as b
        on a.scenario = b.scenario and a.model = b.model and a.seed = b.seed
        and a.method <> b.method and a.published_scenario = b.published_scenario
        and a.published_model = b.published_model
    group by all
),

ours as (
    select
        'ours' as side,
        d.published_scenario as scenario,
        d.published_model as model,
        d.published_method as method,
        d.published_other as against,
        d.our_scenario || ' / ' || d.our_model || ': ' || d.our_method || ' under ' || d.other
            as cell,
        d.value,
        d.value - t95(d.seeds - 1) * d.stderr as low,
        d.value + t95(d.seeds - 1) * d.stderr as high,
        d.stderr,
        d.seeds,
        d.our_scenario
    from differences as d
)

select 'spread' as quantity, * from theirs
union all
select 'spread', * from ours
order by side, scenario, model, method, against, cell
