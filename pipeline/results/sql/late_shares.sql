-- The share of each domain in the rows of the last quarter of a run's steps.
select w.run, w.domain, sum(w.count) / sum(sum(w.count)) over (partition by w.run) as share
from weights as w
join runs as r using (run)
where w.step >= 0.75 * r.steps
group by w.run, w.domain
order by w.run, w.domain
