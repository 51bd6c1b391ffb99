-- The paper's Figure 1: mean accuracy on the tasks while training goes on, for two languages and for the
-- six domains, the large model; a band is the 95% interval over seeds and items, a line without one is
-- of one seed. Below: how much sooner the quickest PiKE is, and stays, where the baseline ends, on the
-- same tasks.
--
-- The quickest PiKE of several looks quicker than it is.
with fastest as (
    select
        p.scenario,
        p.model,
        s.shots,
        s.formulation,
        s.metric,
        max_by(
            'step; the quickest PiKE: ' || format('{:.1f}', s.ratio) || ' x as fast'
                || speeds(s.low, s.high, '{:.1f}'),
            s.ratio
        ) as words
    from speedups as s
    join played_parts as p using (scenario, model, method)
    where s.quantity = 'accuracy' and isfinite(s.ratio) and contains(p.published_method, 'pike')
        and p.published_method not like 'pike-%=%'
    group by all
)

select
    a.* exclude (published_scenario, published_model, published_method, shots, formulation, metric)
    replace (coalesce(f.words, 'step; no PiKE stays at the line') as x_label)
from played_panels as a
left join fastest as f using (scenario, model, shots, formulation, metric)
where a.panel = 'accuracy' and a.published_scenario in ('mc4-en-hi', 'glam')
    and a.published_model = 'gpt2-large' and (
        a.published_scenario, a.published_model, a.published_method
    ) in (select (scenario, model, method) from paper)
    and a.published_method not like 'pike-%=%'
order by a.published_scenario desc, a.scenario, a.key_position, a.key, a.step
