-- seed_means of the averages over domains.
select * exclude (domain, domain_position)
from seed_means
where domain is null
order by scenario, model, method
