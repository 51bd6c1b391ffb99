-- The seconds of each run that plays PiKE, and those of its estimates of norms and variances.
select p.*, sum(t.seconds order by t.seconds) as seconds, sum(t.seconds order by t.seconds) filter (t.phase = 'statistics') as estimating
from played_runs as p
join timings as t using (run)
where p.published_method = 'pike'
group by all
order by p.run, p.published_scenario
