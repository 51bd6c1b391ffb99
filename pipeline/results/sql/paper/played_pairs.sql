-- Two of our methods of one scenario and size, by the parts of the paper that they play. alike: in the same of
-- its scenarios; alone: the other trains on one domain, and the method on more.
select
    a.* exclude (single, single_domain),
    b.method as against,
    b.published_method as published_against,
    b.single and not a.single as alone,
    a.published_scenario = b.published_scenario as alike
from played_parts as a
join played_parts as b using (scenario, model, published_model)
where a.method <> b.method
order by scenario, model, method, against, a.published_method, published_against
