-- The settings that a grid gave to a run, which lie over the method's own.
select r.run, l.facts -> '$.chosen' as chosen
from runs as r
join lineage as l on l.artifact = 'mixture/' || r.mixture
where (l.facts -> '$.chosen') is not null
order by r.run
