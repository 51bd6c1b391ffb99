-- Claims about the gradients of two domains over training, which the paper prints in figures alone: means
-- over the pairs of the runs of Mix, with 95% intervals of Student's t from the spread of the pairs, each
-- averaged over the runs. Pairs share domains, so that even these are too narrow.
with by_pair as (
    select
        scenario,
        model,
        published_scenario,
        published_model,
        pair,
        en_de,
        count(distinct run) as seeds,
        avg(cosine order by run) as cosine,
        avg(positive order by run) as positive,
        avg(conflicting order by run) as conflicting,
        avg(fall order by run) as fall
    from cosine_shares
    group by all
),

summed as (
    select
        scenario as our_scenario,
        model as our_model,
        published_scenario as scenario,
        published_model as model,
        min(seeds) as seeds,
        count(*) as pairs,
        avg(positive) as positive,
        stddev_samp(positive) / sqrt(count(*)) as positive_stderr,
        avg(conflicting) as conflicting,
        stddev_samp(conflicting) / sqrt(count(*)) as conflicting_stderr,
        avg(fall) as fall,
        stddev_samp(fall) / sqrt(count(*)) as fall_stderr,
        avg(cosine) filter (en_de) - avg(cosine) filter (not en_de) as nearness,
        stddev_samp(cosine) filter (not en_de) / sqrt(count(*) filter (not en_de))
            as nearness_stderr
    from by_pair
    group by all
),

cells as (
    select 'low-conflict-glam' as claim, *, positive as value, positive_stderr as stderr
    from summed
    where scenario = 'glam'
    union all
    select 'low-conflict-multilingual', *, conflicting, conflicting_stderr
    from summed
    where scenario like 'mc4-%'
    union all
    select 'similarity-falls', *, fall, fall_stderr from summed
    union all
    select 'similarity-follows-proximity', *, nearness, nearness_stderr
    from summed
    where nearness is not null
)

select
    claim,
    'cosine' as quantity,
    'ours' as side,
    scenario,
    model,
    'mix' as method,
    our_scenario || ' / ' || our_model || ', ' || pairs || ' pairs' as cell,
    value,
    value - t95(pairs - 1) * stderr as low,
    value + t95(pairs - 1) * stderr as high,
    stderr,
    seeds,
    pairs - 1 as degrees,
    our_scenario
from cells
order by claim, side, cell
