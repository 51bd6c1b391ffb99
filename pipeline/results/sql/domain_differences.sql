-- loss_tests of each domain.
select t.*
from loss_tests as t
left join domains as d using (scenario, domain)
where t.domain is not null
order by t.scenario, t.model, t.method, t.against, d.position, t.domain
