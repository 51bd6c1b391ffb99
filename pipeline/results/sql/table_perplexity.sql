-- Validation perplexity after the last step, lower is better: by domain, its mean over domains, exp
-- of the mean loss, and the mean loss minus the baseline's, paired by seed and document. Behind
-- ± one standard error over documents and seeds. Below: what the simplest models would reach.
--
-- significant: the 95% interval of the difference to the baseline, paired by document and seed, lies
-- below zero over two seeds or more; each column and method by itself, not corrected for their number.
-- Errors are derived in method_domains, method_averages and seed_differences.
with shown as (
    select d.* from domain_differences as d join experiment as e on d.against = e.baseline
),

averages as (
    select a.*, f.nll_difference, f.nll_stderr as difference_stderr, f.seeds as paired_seeds,
        f.seeds >= 2 and f.nll_high < 0 as nll_significant,
        f.seeds >= 2 and f.perplexity_high < 0 as perplexity_significant
    from method_averages as a
    cross join experiment as e
    left join method_differences as f
        on a.scenario = f.scenario and a.model = f.model and a.method = f.method
        and f.against = e.baseline
),

labelled as (
    select d.scenario, d.model, d.method, d.domain_position as column_position,
        d.domain as column_label, 'ppl' as unit, d.perplexity as value,
        d.perplexity_stderr as error, 2 as decimals, 'lower' as better,
        s.seeds >= 2 and s.perplexity_high < 0 as significant
    from method_domains as d
    left join shown as s
        on d.scenario = s.scenario and d.model = s.model and d.method = s.method
        and d.domain = s.domain
    union all
    select scenario, model, method, 2000, 'mean', 'ppl', perplexity, perplexity_stderr, 2,
        'lower', perplexity_significant
    from averages
    union all
    select scenario, model, method, 2001, 'exp of mean loss', 'ppl', perplexity_of_mean,
        perplexity_of_mean_stderr, 2, 'lower', nll_significant
    from averages
    union all
    select a.scenario, a.model, a.method, 2002, 'mean loss against ' || e.baseline, 'nats',
        a.nll_difference, a.difference_stderr, 3, 'lower', a.nll_significant
    from averages as a
    cross join experiment as e
    where a.nll_difference is not null
    union all
    select scenario, model, method, 2003, 'seeds', null, seeds, null, 0, null, null
    from averages
    union all
    select scenario, model, method, 2004, 'paired seeds', null, paired_seeds, null, 0, null, null
    from averages
    where paired_seeds is not null
),

known as (
    select distinct scenario, model, domain, domain_position, uniform, unigram, "floor"
    from validation
),

guesses as (
    unpivot known on uniform, unigram, "floor" into name guess value nats
),

per_scenario as (
    select scenario, model, count(distinct domain) as domains from known group by all
),

reference as (
    select scenario, model, guess, domain_position as column_position, domain as column_label,
        exp(nats) as value
    from guesses
    union all
    select g.scenario, g.model, g.guess, 2000, 'mean', avg(exp(g.nats))
    from guesses as g
    join per_scenario as p on g.scenario = p.scenario and g.model = p.model
    group by g.scenario, g.model, g.guess, p.domains
    having count(*) = p.domains
    union all
    select g.scenario, g.model, g.guess, 2001, 'exp of mean loss', exp(avg(g.nats))
    from guesses as g
    join per_scenario as p on g.scenario = p.scenario and g.model = p.model
    group by g.scenario, g.model, g.guess, p.domains
    having count(*) = p.domains
),

cells as (
    select l.scenario, l.model, l.method, 'method' as kind, m.position as row_position,
        l.method as row_label, l.column_position, l.column_label, l.unit, l.value, l.error,
        l.decimals, l.better, l.significant
    from labelled as l
    join methods as m on l.method = m.method
    union all
    select scenario, model, null, 'reference',
        case guess when 'uniform' then 5000 when 'unigram' then 5001 else 5002 end,
        case guess when 'uniform' then 'uniform guess' when 'unigram' then 'unigram counts'
            else 'entropy floor' end,
        column_position, column_label, 'ppl', value, null, 2, null, null
    from reference
)

select
    c.scenario,
    c.model,
    c.method,
    c.scenario || ' / ' || c.model as section,
    c.kind,
    c.row_position,
    c.row_label,
    c.column_position,
    c.column_label,
    c.unit,
    c.value,
    c.error,
    -- Hopeless mixtures have perplexities of many digits: hundredths would say nothing there.
    case when c.value >= 1000 then 0 else c.decimals end as decimals,
    c.better,
    coalesce(c.significant, false) as significant
from cells as c
join scenarios as s on c.scenario = s.scenario
order by s.position, c.model, c.row_position, c.row_label, c.column_position, c.column_label
