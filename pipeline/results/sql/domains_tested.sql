-- method_domains, and whether the perplexity is shown to lie below the baseline's.
select d.*, coalesce(shown(t.seeds, t.perplexity_p_holm, -t.perplexity_difference), false) as significant
from method_domains as d
cross join experiment as e
left join domain_differences as t
    on d.scenario = t.scenario and d.model = t.model and d.method = t.method
    and d.domain = t.domain and t.against = e.baseline
order by d.scenario, d.model, d.method, d.domain_position, d.domain
