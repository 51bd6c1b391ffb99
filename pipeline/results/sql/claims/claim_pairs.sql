-- The pairs of methods that decide a claim: `pairs` whose quantity and shots are the claim's, and whose
-- names match its patterns (claimed_pairs says what null matches).
select c.claim, p.*
from paper_patterns as c
join pairs as p
    on c.quantity = p.quantity and regexp_full_match(p.method, c.method)
    and coalesce(
        regexp_full_match(p.against, c.against),
        not regexp_matches(p.against, 'pike|^single-') and (p.scenario, p.model, p.against, p.quantity) in (
            select (scenario, model, method, metric) from paper where task = 'average'
        )
    )
    and regexp_full_match(p.scenario, coalesce(c.scenario, '.*'))
    and coalesce(c.model = p.model, true) and coalesce(c.shots = p.shots, true)
order by c.claim, p.side, p.cell, p.shots
