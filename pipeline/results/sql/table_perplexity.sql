-- Validation perplexity after the last step, lower is better: by domain, its mean over domains, exp
-- of the mean loss, and the mean loss minus the baseline's, paired by seed and document. Behind
-- ± half of the 95% interval over documents and seeds. Below: what the simplest models would reach.
--
-- significant: by the paired test against the baseline over three seeds or more and twenty effective documents (loss_tests),
-- corrected (Holm): the means over all methods of the section, the domains over all methods and domains.
-- Errors are derived in method_domains, method_averages and loss_tests.
with labelled as (
    select scenario, model, method, domain_position as column_position, domain as column_label,
        'ppl' as unit, perplexity as value, perplexity_half as error, 2 as decimals,
        'lower' as better, significant, null as pairs
    from domains_tested
    union all
    select a.scenario, a.model, a.method, c.*
    from averages_tested as a
    cross join experiment as e
    cross join lateral (values
        (2000, 'mean', 'ppl', a.perplexity, a.perplexity_half, 2, 'lower', a.perplexity_significant, null),
        (2001, 'exp of mean loss', 'ppl', a.perplexity_of_mean, a.perplexity_of_mean_half, 2,
            'lower', a.nll_significant, null),
        (2002, 'mean loss against ' || e.baseline, 'nats', a.nll_difference, a.difference_half, 3,
            'lower', a.nll_significant, a.paired_seeds),
        (2003, 'seeds', null, a.seeds, null, 0, null, null, null),
        (2004, 'paired seeds', null, a.paired_seeds, null, 0, null, null, null)
    ) as c (column_position, column_label, unit, value, error, decimals, better, significant, pairs)
    -- Cells without a value stand nowhere: the baseline has no difference to itself.
    where c.value is not null
),

guesses as (
    select k.scenario, k.model, k.domain, k.domain_position, k.target, g.*
    from (
        select distinct scenario, model, domain, domain_position, target, uniform, unigram, "floor"
        from validation
    ) as k
    cross join lateral (values
        (5000, 'uniform guess', k.uniform), (5001, 'unigram counts', k.unigram), (5002, 'entropy floor', k."floor")
    ) as g (row_position, row_label, nats)
),

-- Means over the domains that count, as those of methods; a guess that lacks one has none.
means as (
    select scenario, model, row_position, row_label, weighted_mean(exp(nats), target, domain) as mean,
        exp(weighted_mean(nats, target, domain)) as exp_of_mean
    from guesses
    where target > 0
    group by all
    having count(nats) = count(*)
),

reference as (
    select * exclude (domain, domain_position, target, nats), domain_position as column_position,
        domain as column_label, exp(nats) as value
    from guesses
    where nats is not null
    union all
    select m.* exclude (mean, exp_of_mean), c.*
    from means as m
    cross join lateral (values (2000, 'mean', m.mean), (2001, 'exp of mean loss', m.exp_of_mean)) as c
),

cells as (
    select l.scenario, l.model, l.method, 'method' as kind, m.position as row_position,
        l.method as row_label, l.* exclude (scenario, model, method)
    from labelled as l
    join methods as m using (method)
    union all by name
    select *, 'reference' as kind, 'ppl' as unit, 2 as decimals from reference
)

select
    c.scenario,
    c.model,
    c.method,
    c.scenario || ' / ' || c.model as section,
    c.* exclude (scenario, model, method) replace (
        shown_decimals(c.unit, c.value, c.decimals) as decimals,
        coalesce(c.significant, false) as significant
    ),
    o.method is not null as other_sign
from cells as c
join scenarios as s using (scenario)
left join unstable_signs as o
    on (c.scenario, c.model, c.method, c.column_position) = (o.scenario, o.model, o.method, o.column_position)
order by s.position, c.model, c.row_position, c.row_label, c.column_position, c.column_label
