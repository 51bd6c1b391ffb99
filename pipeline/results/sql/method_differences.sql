-- loss_tests of the means over domains, in each scenario.
select * exclude (domain)
from loss_tests
where domain is null and scenario is not null
order by scenario, model, method, against
