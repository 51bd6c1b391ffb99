-- Claims about the gradients of two domains over the training of Mix, which the paper prints in figures
-- alone: one number of each run. Plain cosines, as the paper measures them: noise makes them smaller, and
-- cannot change their sign on average.
--
-- A run's pairs are all pairs of its domains, not a sample of them: only other seeds would give others.
with tasks as (select ours, published from published_names where kind = 'task'),

probed as (
    select
        p.scenario as our_scenario, p.model as our_model, p.published_scenario as scenario,
        p.published_model as model, p.run, p.seed, s.step, s.cosine, s.ratio,
        s.domain_a || ' and ' || s.domain_b as pair,
        coalesce(list_sort([a.published, b.published]) = ['de', 'en'], false) as en_de,
        s.step = min(s.step) over (partition by p.run) as is_first,
        s.step = max(s.step) over (partition by p.run) as is_last
    from played_runs as p
    join similarities as s using (run)
    left join tasks as a on s.domain_a = a.ours
    left join tasks as b on s.domain_b = b.ours
    where p.published_method = 'mix'
),

-- K (K - 1) / 2 pairs of K domains. By Definition 1 a step's gradients are c-conflicted with the greatest
-- of the negative ratios; at equal weights the descent theorem asks for c < 1 / (2 K - 2).
conflicts as (
    select run, ordered_mean(conflict) as conflict
    from (
        select run, step, greatest(0, max(-ratio)) * (sqrt(8 * count(distinct pair) + 1) - 1) as conflict
        from probed
        group by all
    )
    group by run
),

unevenness as (
    select run, stddev_pop(cosine order by pair) as sd
    from (select run, pair, avg(cosine order by step) as cosine from probed group by all)
    group by run
    having count(*) > 1
),

by_run as (
    select p.our_scenario, p.our_model, p.scenario, p.model, p.run, p.seed,
        count(distinct p.pair) || ' pairs' as of_what,
        100 * avg((p.cosine > 0)::integer) as "low-conflict-glam",
        100 * avg((p.cosine < -0.1)::integer) as "low-conflict-multilingual",
        avg(p.cosine order by p.cosine) filter (p.is_first)
            - avg(p.cosine order by p.cosine) filter (p.is_last and not p.is_first) as "similarity-falls",
        avg(p.cosine order by p.cosine) filter (p.en_de) - avg(p.cosine order by p.cosine) filter (not p.en_de)
            as "similarity-follows-proximity",
        any_value(c.conflict) as "conflict-is-small"
    from probed as p
    join conflicts as c using (run)
    group by all
),

by_claim as (
    unpivot by_run on columns('-') into name claim value "value"
)

select * exclude (run)
from by_claim
where case claim when 'low-conflict-glam' then scenario = 'glam'
    when 'low-conflict-multilingual' then scenario like 'mc4-%' else true end
union all by name
select 'glam-aligns-evenly' as claim, g.our_scenario, g.our_model, g.scenario, g.model, g.seed,
    'less than ' || l.our_scenario as of_what, u.sd - v.sd as value
from by_run as g
join by_run as l using (model, our_model, seed)
join unevenness as v on g.run = v.run
join unevenness as u on l.run = u.run
where g.scenario = 'glam' and l.scenario like 'mc4-%'
order by claim, our_scenario, our_model, of_what, seed
