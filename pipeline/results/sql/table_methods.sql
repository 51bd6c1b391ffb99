-- Methods side by side after the same number of tokens: validation perplexity by domain, the mean loss
-- against the baseline and against the best static mixture found (regret), both paired by seed and
-- document, the effective number of domains, and the time of a step. Behind ± half of the
-- 95% interval.
--
-- effective domains: those of late_domains.
-- step time: mean seconds of a step over the baseline's on the same kind of device, minus one; its interval is over seeds.
-- significant: as in table_perplexity; a regret's is against the oracle.
-- Runs that shared the machine with others show the machine's noise in it.
with effective as (
    select r.scenario, r.model, r.method, ordered_mean(e.effective) as domains, half_over(e.effective) as error
    from late_domains as e
    join runs as r using (run)
    group by all
),

paced as (
    select r.run, r.scenario, r.model, r.method, r.seed, r.device, ordered_mean(s.seconds) as seconds
    from steps as s
    join runs as r using (run)
    group by all
),

overhead as (
    select a.scenario, a.model, a.method, 100 * (ordered_mean(a.seconds / b.seconds) - 1) as percent,
        100 * half_over(a.seconds / b.seconds) as error
    from paced as a
    join paced as b using (scenario, model, seed, device)
    join experiment as e on b.method = e.baseline
    where a.method <> e.baseline
    group by all
),

compared as (
    select d.*, c.*
    from method_differences as d
    cross join experiment as e
    cross join lateral (values
        (e.baseline, 2000, 'mean loss against '), (e.oracle, 2001, 'regret against ')
    ) as c (reference, place, label)
    where d.against = c.reference
),

cells as (
    select scenario, model, method, domain_position as column_position, domain as column_label,
        'ppl' as unit, perplexity as value, perplexity_half as error, 2 as decimals,
        'lower' as better, significant, null as pairs
    from domains_tested
    union all
    select scenario, model, method, place, label || against, 'nats', nll_difference,
        (nll_high - nll_low) / 2, 3, 'lower', shown(seeds, nll_p_holm, -nll_difference), seeds
    from compared
    union all
    select scenario, model, method, 2002, 'effective domains', null, domains, error, 2, null, null, null
    from effective
    union all
    select scenario, model, method, 2003, 'step time', '% over baseline', percent, error, 0,
        null, null, null
    from overhead
    union all
    select scenario, model, method, 2004, 'seeds', null, seeds, null, 0, null, null, null
    from method_averages
    union all
    select scenario, model, method, 2005, 'paired seeds', null, seeds, null, 0, null, null, null
    from compared
    where place = 2000
)

select
    r.* exclude (scenario_position),
    c.* exclude (scenario, model, method) replace (
        shown_decimals(c.unit, c.value, c.decimals) as decimals,
        coalesce(c.significant, false) as significant
    )
from cells as c
join method_rows as r using (scenario, model, method)
order by r.scenario_position, r.model, r.row_position, r.method, c.column_position, c.column_label
