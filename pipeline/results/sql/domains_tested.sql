-- method_domains, and whether the perplexity is shown to lie below the baseline's.
select d.*, coalesce(shown(t.seeds, t.perplexity_p_holm, -t.perplexity_difference), false) as significant
from method_domains as d
left join (from loss_tests semi join experiment on against = baseline) as t using (scenario, model, method, domain)
order by d.scenario, d.model, d.method, d.domain_position, d.domain
