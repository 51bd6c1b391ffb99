-- Claims about what PiKE's estimates cost in time, of each run: their share of the training time; that
-- share less the one of a run that estimates half as often or less; and how the seconds of an estimated row
-- grow with the parameters, and the seconds of an estimate with the domains: exponents, 1 where they grow
-- in proportion.
with measured as (
    select p.scenario as our_scenario, p.model as our_model, p.method as our_method,
        p.published_scenario as scenario, p.published_model as model, p.run, p.seed, p.seconds,
        p.estimating, r.parameters, r.device, cast(coalesce(
            json_extract_string(r.settings, '$.method.every'), json_extract_string(d.settings, '$.every')
        ) as bigint) as every
    from played_overheads as p
    join runs as r using (run)
    left join defaults as d on d.kind = 'pike'
),

estimates as (
    select run, sum(rows) as rows, count(distinct step) as times, count(distinct domain) as domains
    from gradient_statistics
    group by run
),

paced as (
    select m.*, m.estimating / e.rows as of_a_row, m.estimating / e.times as of_an_estimate, e.domains
    from measured as m
    join estimates as e using (run)
)

select 'overhead' as claim, our_scenario, our_model, scenario, model, seed, our_method as of_what,
    100 * estimating / seconds as value
from measured
union all
select 'longer-interval', a.our_scenario, a.our_model, a.scenario, a.model, a.seed,
    a.our_method || ' less ' || b.method, 100 * (a.estimating / a.seconds - t.share)
from measured as a
join runs as b on a.our_scenario = b.scenario and a.our_model = b.model and a.seed = b.seed and a.device = b.device
join timings as t on b.run = t.run and t.phase = 'statistics'
where json_extract_string(b.settings, '$.rule') = 'pike'
    and cast(json_extract_string(b.settings, '$.method.every') as bigint) >= 2 * a.every
union all
select 'linear-in-model-size', a.our_scenario, a.our_model, a.scenario, a.model, a.seed,
    'beside ' || b.our_model, ln(a.of_a_row / b.of_a_row) / ln(a.parameters / b.parameters)
from paced as a
join paced as b
    on a.our_scenario = b.our_scenario and a.scenario = b.scenario and a.our_method = b.our_method
    and a.seed = b.seed and a.device = b.device and a.parameters > b.parameters
union all
select 'linear-in-tasks', a.our_scenario, a.our_model, a.scenario, a.model, a.seed,
    'beside ' || b.our_scenario, ln(a.of_an_estimate / b.of_an_estimate) / ln(a.domains / b.domains)
from paced as a
join paced as b
    on a.our_model = b.our_model and a.our_method = b.our_method and a.seed = b.seed and a.device = b.device
    and a.domains > b.domains
order by claim, our_scenario, our_model, of_what, seed
