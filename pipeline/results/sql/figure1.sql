-- Figure 1 of the paper: mean accuracy on the tasks while training goes on, of every method, for two languages
-- and for GLaM's domains, the large model. How much sooner the quickest PiKE is where the baseline ends,
-- and stays there to the end, on the same tasks, stands below each panel, with its 95% interval; the quickest
-- of several looks quicker than it is.
with fastest as (
    select
        p.scenario,
        p.model,
        s.shots,
        s.formulation,
        s.metric,
        max_by(
            'step; ' || s.method || ': ' || format('{:.1f}', s.ratio) || ' x as fast'
                || case when s.high is null then '' else ' [' || coalesce(
                    format('{:.1f}', s.low), 'not reached'
                ) || ', ' || format('{:.1f}', s.high) || ']' end,
            s.ratio
        ) as words
    from speedups as s
    join played_parts as p
        on s.scenario = p.scenario and s.model = p.model and s.method = p.method
    where s.quantity = 'accuracy' and isfinite(s.ratio) and contains(p.published_method, 'pike')
        and p.published_method not like 'pike-%=%'
    group by all
)

select
    a.* exclude (published_scenario, published_model, published_method, shots, formulation, metric)
    replace (coalesce(f.words, 'step; no PiKE stays at the line') as x_label)
from played_accuracies as a
left join fastest as f
    on a.scenario = f.scenario and a.model = f.model and a.shots = f.shots
    and a.formulation = f.formulation and a.metric = f.metric
where a.published_scenario in ('mc4-en-hi', 'glam') and a.published_model = 'gpt2-large'
    and (
        a.published_scenario, a.published_model, a.published_method
    ) in (select (scenario, model, method) from paper)
    and a.published_method not like 'pike-%=%'
order by a.published_scenario desc, a.scenario, a.key_position, a.key, a.step
