-- Runs that collapsed: over the last quarter of the steps their rows spread over fewer than 1.3 effective
-- domains (late_domains), or a domain had no row for a quarter of the steps on end. A mixture that begins
-- so was chosen so: one that draws from one domain at first, or never gives a domain a weight.
with begun as (
    select w.run, w.domain, w.weight > 0 as drawn, e.effective
    from weights as w
    join effective_domains as e using (run, step)
    where w.step = 0
),

-- The step behind the last ends a stretch, too.
had as (
    select run, domain, step from weights where "count" > 0
    union all
    select b.run, b.domain, r.steps from begun as b join runs as r using (run)
),

stretches as (
    select run, domain, step - 1 - coalesce(lag(step) over (partition by run, domain order by step), -1) as without
    from had
)

select run, min(reason) as reason
from (
    select l.run, 'effective domains' as reason
    from late_domains as l
    where l.effective < 1.3 and l.run in (select run from begun where effective >= 1.3)
    union all
    select s.run, 'no rows of ' || s.domain
    from stretches as s
    join begun as b on s.run = b.run and s.domain = b.domain and b.drawn
    join runs as r on s.run = r.run
    where s.without >= 0.25 * r.steps
)
group by run
order by run
