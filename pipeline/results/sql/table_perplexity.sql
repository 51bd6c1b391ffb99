-- Validation perplexity after the last step, lower is better: by domain, its mean over domains, exp
-- of the mean loss, and the mean loss minus the baseline's, paired by seed and document. Behind
-- ± half of the 95% interval over documents and seeds. Below: what the simplest models would reach.
--
-- significant: by the paired test against the baseline over two seeds or more and twenty effective documents (loss_tests),
-- corrected (Holm): the means over all methods of the section, the domains over all methods and domains.
-- Errors are derived in method_domains, method_averages and loss_tests.
with labelled as (
    select scenario, model, method, domain_position as column_position, domain as column_label,
        'ppl' as unit, perplexity as value, perplexity_half as error, 2 as decimals,
        'lower' as better, significant
    from domains_tested
    union all
    select a.scenario, a.model, a.method, c.*
    from averages_tested as a
    cross join experiment as e
    cross join lateral (values
        (2000, 'mean', 'ppl', a.perplexity, a.perplexity_half, 2, 'lower', a.perplexity_significant),
        (2001, 'exp of mean loss', 'ppl', a.perplexity_of_mean, a.perplexity_of_mean_half, 2,
            'lower', a.nll_significant),
        (2002, 'mean loss against ' || e.baseline, 'nats', a.nll_difference, a.difference_half, 3,
            'lower', a.nll_significant),
        (2003, 'seeds', null, a.seeds, null, 0, null, null),
        (2004, 'paired seeds', null, a.paired_seeds, null, 0, null, null)
    ) as c (column_position, column_label, unit, value, error, decimals, better, significant)
    -- Cells without a value stand nowhere: the baseline has no difference to itself.
    where c.value is not null
),

known as (
    select distinct scenario, model, domain, domain_position, uniform, unigram, "floor"
    from validation
),

guesses as (
    unpivot known on uniform, unigram, "floor" into name guess value nats
),

-- Means over all domains, which a guess that lacks one has not.
means as (
    select g.scenario, g.model, g.guess, avg(exp(g.nats) order by exp(g.nats)) as mean, exp(avg(g.nats order by g.nats)) as exp_of_mean
    from guesses as g
    join known as k using (scenario, model)
    group by g.scenario, g.model, g.guess
    having count(distinct g.domain) = count(distinct k.domain)
),

reference as (
    select scenario, model, guess, domain_position as column_position, domain as column_label,
        exp(nats) as value
    from guesses
    union all
    select scenario, model, guess, 2000, 'mean', mean from means
    union all
    select scenario, model, guess, 2001, 'exp of mean loss', exp_of_mean from means
),

cells as (
    select l.scenario, l.model, l.method, 'method' as kind, m.position as row_position,
        l.method as row_label, l.* exclude (scenario, model, method)
    from labelled as l
    join methods as m using (method)
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
    c.* exclude (scenario, model, method) replace (
        shown_decimals(c.unit, c.value, c.decimals) as decimals,
        coalesce(c.significant, false) as significant
    )
from cells as c
join scenarios as s using (scenario)
order by s.position, c.model, c.row_position, c.row_label, c.column_position, c.column_label
