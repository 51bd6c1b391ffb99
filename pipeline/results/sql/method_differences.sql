-- seed_differences of the mean over domains.
select * exclude (domain, domain_position)
from seed_differences
where domain is null
order by scenario, model, method, against
