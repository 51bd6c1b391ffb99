-- Two of our methods beside each other, seed by seed, with the paper's names of both. quantity is that of
-- printed_pairs, but for accuracies (accuracy_tests), perplexities and spreads (loss_tests):
--   weight  how many points more of the last quarter's rows the method draws from the domain whose gradient
--           has the greatest variance in the other's run
--   memory  by how many percent the most memory that a run held is more
with named as (
    select c.quantity, p.published_scenario as scenario, p.published_model as model, p.published_method as method,
        p.published_against as against,
        c.scenario || ' / ' || c.model || ': ' || c.method || ' over ' || c.against as cell,
        c.scenario as our_scenario, a.seed, a.run, b.run as other
    from claimed_pairs as c
    join runs as a using (scenario, model, method)
    join runs as b
        on c.scenario = b.scenario and c.model = b.model and c.against = b.method and a.seed = b.seed
    join played_pairs as p using (scenario, model, method, against)
    where p.alike
),

noisiest as (
    select run, arg_max(domain, variance order by domain) as domain
    from (select run, domain, ordered_mean(variance) as variance from gradient_statistics group by all)
    group by run
),

memory as (select run, max(memory_bytes) as bytes from steps group by run)

select n.* exclude (run, other), 100 * (a.share - b.share) as value
from named as n
join noisiest as o on n.other = o.run
join late_shares as a on n.run = a.run and o.domain = a.domain
join late_shares as b on n.other = b.run and o.domain = b.domain
where n.quantity = 'weight'
union all
select n.* exclude (run, other), 100 * (a.bytes / b.bytes - 1)
from named as n
join memory as a using (run)
join memory as b on n.other = b.run
where n.quantity = 'memory'
order by quantity, cell, scenario, method, against, seed
