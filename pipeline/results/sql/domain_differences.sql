-- seed_differences of each domain.
select * exclude (seeds_better, nll_stderr, perplexity_stderr)
from seed_differences
where domain is not null
order by scenario, model, method, against, domain_position, domain
