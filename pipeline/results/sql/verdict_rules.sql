-- What several views compute, and, in one place, what counts as shown.

-- Two-sided 95% quantile of Student's t with whole degrees of freedom; null above 30. With two seeds there is
-- one degree and the interval is 12.7 standard errors wide.
create macro t95_whole(degrees) as
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
     2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
     2.052, 2.048, 2.045, 2.042][degrees];

-- Of any degrees, Satterthwaite's too: nearly a straight line in 1 / degrees between its neighbours, and from
-- 30 to infinity (known errors), where it is the normal quantile. Never too small by more than 0.03%; too large
-- by 19% at most below two degrees, by 2% below three, by 0.4% from there.
create macro t95(degrees) as case
    when degrees >= 30 then 1.96 + 2.46 / degrees
    when degrees >= 1 then t95_between(floor(least(degrees, 29))::integer, degrees)
end;
create macro t95_between(n, degrees) as t95_whole(n) * (n * (n + 1) / degrees - n)
    + t95_whole(n + 1) * (n + 1 - n * (n + 1) / degrees);

-- The mean of numbers, whose last bit depends on the order in which they are added: their own.
create macro ordered_mean(value) as avg(value order by value);

-- The error of a mean over seeds: their standard deviation, and the error that all of them share.
create macro both_errors(seed_sd, seeds, shared) as sqrt(coalesce(seed_sd ^ 2, 0) / seeds + shared ^ 2);

-- The square of half of a 95% interval over seeds and documents, each with its own quantile, as half_width of
-- comparison/mean_difference.py: standard errors of both, and their degrees of freedom (absent: as good as known).
create macro half_width_squared(of_seeds, seeds, of_items, degrees) as
    coalesce((t95(seeds - 1) * of_seeds) ^ 2, 0) + coalesce((t95(coalesce(degrees, 'infinity'::double)) * of_items) ^ 2, 0);

-- What stands behind ± and bounds a band: half of the 95% interval of a mean over seeds, and over the documents
-- or items that all of them share; of one seed over these alone.
create macro half_width(seed_sd, seeds, shared) as case when shared is not null
    then sqrt(half_width_squared(seed_sd / sqrt(seeds), seeds, shared, null)) end;
create macro half_over_seeds(value, error, key) as
    half_width(stddev_samp(value order by key), count(*), sqrt(avg(error ^ 2 order by key)));
-- The same of so many independent numbers, which share nothing; null of one.
create macro half_of_mean(sd, numbers) as t95(numbers - 1) * sd / sqrt(numbers);
create macro half_over(value) as half_of_mean(stddev_samp(value order by value), count(value));

-- The mean of numbers, and the error of one of independent numbers; null where one is missing. Sums go through
-- them by key, since their last bit depends on the order.
create macro mean_of_all(value, key) as if(count(value) = count(*), avg(value order by key), null);
create macro mean_error(stderr, key) as case
    when count(stderr) = count(*) then sqrt(sum(stderr ^ 2 order by key)) / count(*)
end;

-- The mean over domains that a scenario's target weighs, and its error; null where one that counts has none.
create macro weighted_mean(value, weight, key) as sum(weight * value order by key) / sum(weight order by key);
create macro weighted_error(stderr, weight, key) as case
    when count(*) filter (weight > 0 and stderr is null) = 0
        then sqrt(sum((weight * stderr) ^ 2 order by key)) / sum(weight order by key)
end;

-- Hopeless mixtures have perplexities of many digits: hundredths would say nothing there.
create macro shown_decimals(unit, value, decimals) as case
    when unit = 'ppl' and value >= 1000 then 0 else decimals
end;

-- One of ours under the name that it plays.
create macro played_as(ours, published, label) as case
    when ours = published then label else ours || ' as ' || label
end;

-- Where a score of the paper's stands among the columns of a table, and their header.
create macro score_position(metric, task, shots, position) as
    if(metric = 'perplexity', 0, 100 + 100 * coalesce(shots, 0)) + if(task = 'average', 0, 1 + position);
create macro score_label(metric, task, shots, label) as
    if(task = 'average', if(metric = 'perplexity', 'mean perplexity', 'mean accuracy'), label)
    || if(metric = 'perplexity', '', ', ' || shots || '-shot');

-- "Three synthetic languages of known entropy, one easy" is "three synthetic languages".
create macro first_words(about) as
    lower(about[1]) || regexp_extract(about[2:], '^(.*?)(,|:| of | from |$)', 1);

-- What a panel of ours is called: by the scenario's own name and the first words of what it is about, since
-- its text is not the paper's; the paper's own scenario bears the paper's name.
create macro panel_title(scenario, published, label, config) as case
    when scenario = published then label
    else scenario || coalesce(': ' || nullif(first_words(
        json_extract_string(config, '$.scenarios."' || scenario || '".about')
    ), ''), '')
end;

-- A method's place in a figure's legend: -1 is ink, that of the baseline.
create macro line_position(method, baseline, position) as case
    when method = baseline then -1 else position - 1
end;

-- What counts as shown: a gain over the baseline by the paired test, corrected for all of its family, over at
-- least so many seeds (LEAST_SEEDS of comparison/mean_difference.py). There is no p where documents are too few.
create macro least_seeds() as 3;
create macro level() as 0.05;
create macro shown(seeds, p_holm, gain) as p_holm < level() and seeds >= least_seeds() and gain > 0;

-- A corrected test in words that claim no more than its numbers.
create macro test_in_words(seeds, p_holm, gain, stderr) as case
    when seeds is null then null
    when gain = 0 and stderr = 0 then 'equal'
    when p_holm is null then if(seeds < least_seeds(), 'too few seeds to tell', 'too few documents to tell')
    when p_holm >= level() then 'no difference shown'
    else case when gain > 0 then 'better' else 'worse' end
        || case when seeds < least_seeds() then ' with this seed; another may differ' else '' end
end;

-- A claim of the paper, by all numbers of ours that decide it. inside: whether all lie within its bounds.
-- fewest: seeds of that with the fewest; null where none has any. One number over seeds enough contradicts a
-- claim; all that support it need as many.
create macro claim_verdict(inside, p_holm, fewest) as case
    when coalesce(p_holm, 1) < level() and not inside then 'contradicted'
    when fewest < least_seeds() then 'too few seeds'
    when coalesce(p_holm, 1) >= level() then 'not significant'
    else 'supported'
end;

-- The least standard error of a mean share, in percent, of so many seeds, by the estimate of Agresti and Coull (1998),
-- which adds two successes and two failures: seeds that agree are no proof.
create macro share_error(percent, seeds) as 100 * sqrt(
    (percent / 100 * seeds + 2) * ((1 - percent / 100) * seeds + 2) / (seeds + 4) ^ 3
);

-- How many times sooner a method is there, and the interval: at its first checkpoint, before it trains, infinitely.
create macro speed(ratio, pattern) as case when ratio is null then 'not reached'
    when isinf(ratio) then 'from the start' else format(pattern, ratio) end;
create macro speeds(low, high, pattern) as case when high is null then ''
    else ' [' || speed(low, pattern) || ', ' || speed(high, pattern) || ']' end;

-- How many standard deviations of the seeds' differences a true difference must have for its 95% interval
-- to leave zero with probability 0.8 (comparison/detectable.py), and with the error that all seeds share.
create macro detectable(seed_sd, seeds, shared) as case when seeds >= least_seeds() then sqrt(
    (coalesce([3.264, 2.128, 1.682, 1.435, 1.272, 1.156, 1.067, 0.996][seeds - 2],
        2.802 / sqrt(seeds - 2)) * seed_sd) ^ 2
    + (2.802 * shared) ^ 2
) end;
