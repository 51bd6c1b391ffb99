-- The cosines between gradients of two domains over the training of Mix, of each pair: the percentage of
-- probed checkpoints at which it is above zero and below -0.1, and the first less the last.
--
-- Plain cosines, as the paper measures them: noise makes them smaller, and cannot change their sign on
-- average. en_de: the pair of the domains that play English and German.
with tasks as (select ours, published from published_names where kind = 'task'),

ordered as (
    select
        p.run,
        p.scenario,
        p.model,
        p.published_scenario,
        p.published_model,
        s.domain_a,
        s.domain_b,
        s.cosine,
        s.step,
        min(s.step) over (partition by p.run) as first_step,
        max(s.step) over (partition by p.run) as last_step
    from played_runs as p
    join similarities as s on p.run = s.run
    where p.published_method = 'mix'
)

select
    o.run,
    o.scenario,
    o.model,
    o.published_scenario,
    o.published_model,
    o.domain_a || ' and ' || o.domain_b as pair,
    coalesce(
        list_contains(['en', 'de'], a.published) and list_contains(['en', 'de'], b.published), false
    ) as en_de,
    avg(o.cosine) as cosine,
    100 * avg((o.cosine > 0)::integer) as positive,
    100 * avg((o.cosine < -0.1)::integer) as conflicting,
    max(o.cosine) filter (o.step = o.first_step) - max(o.cosine) filter (o.step = o.last_step)
        as fall
from ordered as o
left join tasks as a on o.domain_a = a.ours
left join tasks as b on o.domain_b = b.ours
group by all
order by o.run, o.published_scenario, pair
