-- Our methods that some claim compares: the patterns of paper_patterns, with our names. Null in `against`
-- matches all that are no PiKE and of which the paper prints the number: the best of them is the hardest to
-- beat, so that a claim over all of them is decided by its smallest gain. A run on one domain is compared with
-- those on all domains of its scenario.
select distinct c.quantity, a.scenario, a.model, a.method, b.method as against
from paper_patterns as c
join played_parts as a
    on regexp_full_match(a.published_method, c.method)
    and regexp_full_match(a.published_scenario, coalesce(c.scenario, '.*'))
    and coalesce(c.model = a.published_model, true)
join played_parts as b
    on a.scenario = b.scenario and a.model = b.model and a.published_model = b.published_model
    and a.method <> b.method and (a.published_scenario = b.published_scenario or b.single)
    and coalesce(
        regexp_full_match(b.published_method, c.against),
        not contains(b.published_method, 'pike') and not b.single
        and (b.published_scenario, b.published_model, b.published_method, c.quantity) in (
            select (scenario, model, method, metric) from paper where task = 'average'
        )
    )
order by c.quantity, a.scenario, a.model, a.method, b.method
