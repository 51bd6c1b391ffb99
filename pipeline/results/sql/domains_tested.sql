-- method_domains, and whether the perplexity is shown to lie below the baseline's: by the paired interval
-- of each domain by itself, not corrected for the number of domains and methods.
select d.*, coalesce(shown_lower(t.seeds, t.perplexity_high), false)
        and enough_documents(t.effective) as significant
from method_domains as d
cross join experiment as e
left join domain_differences as t
    on d.scenario = t.scenario and d.model = t.model and d.method = t.method
    and d.domain = t.domain and t.against = e.baseline
order by d.scenario, d.model, d.method, d.domain_position, d.domain
