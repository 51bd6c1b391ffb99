-- method_averages with the paired difference to the baseline, and whether loss and perplexity are shown to
-- lie below its own.
select
    a.*,
    t.nll_difference,
    (t.nll_high - t.nll_low) / 2 as difference_half,
    t.seeds as paired_seeds,
    coalesce(shown(t.seeds, t.nll_p_holm, -t.nll_difference), false) as nll_significant,
    coalesce(shown(t.seeds, t.perplexity_p_holm, -t.perplexity_difference), false) as perplexity_significant
from method_averages as a
left join (from method_differences semi join experiment on against = baseline) as t using (scenario, model, method)
order by a.scenario, a.model, a.method
