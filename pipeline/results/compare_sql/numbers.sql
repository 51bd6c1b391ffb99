-- Perplexities and accuracies of both sides, by all seeds and by each, with the tests of their
-- difference.
with losses as (
    select scenario, model, method, domain, seeds, perplexity, perplexity_stderr
    from method_domains
    union all by name
    select scenario, model, method, 'mean' as domain, seeds, perplexity, perplexity_stderr
    from method_averages
),

scores as (
    select 'perplexity' as kind, scenario || '/' || model as name, domain as quantity, method,
        perplexity as value, perplexity_stderr as stderr, seeds
    from losses
    union all
    select 'accuracy', r.scenario || '/' || r.model,
        a.task || ', ' || a.shots || '-shot, ' || a.formulation || ', ' || a.metric, r.method,
        avg(a.value order by r.seed), sqrt(avg(a.stderr ^ 2 order by r.seed)), count(*)
    from accuracies as a
    join runs as r on a.run = r.run
    group by all
),

tests as (
    select 'perplexity' as kind, scenario || '/' || model as name,
        coalesce(domain, 'mean') as quantity, perplexity_low as low, perplexity_high as high,
        null as p, perplexity_low is not null as paired
    from seed_differences
    union all
    select 'accuracy', scenario || '/' || model,
        task || ', ' || shots || '-shot, ' || formulation || ', ' || metric, low, high, p_holm,
        p is not null
    from accuracy_tests
),

found as (
    select kind, name, quantity, a.value as first, b.value as second,
        b.value - a.value as difference, 1.96 * sqrt(a.stderr ^ 2 + b.stderr ^ 2) as half,
        coalesce(t.low, difference - half) as low, coalesce(t.high, difference + half) as high,
        t.p, least(a.seeds, b.seeds) as seeds, coalesce(t.paired, false) as paired
    from scores as a
    join scores as b using (kind, name, quantity)
    left join tests as t using (kind, name, quantity)
    where a.method = 'first' and b.method = 'second'
)

select kind, name, quantity, first, second, difference, low, high, p, seeds,
    case
        when difference = 0 then 'equal'
        when shown_different(p, low, high) then 'significant'
        when p is null and low is null then 'no error'
        else 'not significant'
    end || if(paired, '', ', unpaired') as verdict
from found
order by kind desc, name, kind = 'perplexity' and quantity = 'mean', quantity
