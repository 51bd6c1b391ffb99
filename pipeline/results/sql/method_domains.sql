-- seed_means of each domain.
select columns(lambda c: not starts_with(c, 'perplexity_of_mean'))
from seed_means
where domain is not null
order by scenario, model, method, domain_position, domain
