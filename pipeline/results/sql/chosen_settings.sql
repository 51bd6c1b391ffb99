-- The settings that a grid gave to a run, which lie over the method's own, and the next best of the grid: by how much
-- its loss is higher on the search split, with the standard error over seeds.
select r.run, l.facts -> '$.chosen' as chosen,
    l.facts -> '$.diagnostics.next.gives' as next_settings,
    cast(l.facts ->> '$.diagnostics.next.difference' as double) as next_difference,
    cast(l.facts ->> '$.diagnostics.next.stderr' as double) as next_stderr,
    cast(l.facts ->> '$.diagnostics.next.seeds' as integer) as next_seeds
from runs as r
join lineage as l on l.artifact = 'mixture/' || r.mixture
where (l.facts -> '$.chosen') is not null
order by r.run
