-- Figure 2 of the paper: GLaM's domains, the large model. Left: mean accuracy with batches of Mix, Round-Robin
-- and Random. Right: the cosine of the domains' gradients under Mix, plain and with the noise taken out.
with panels as (
    select * exclude (
        published_scenario, published_model, published_method, shots, formulation, metric
    )
    from played_accuracies
    where published_scenario = 'glam' and published_model = 'gpt2-large'
        and published_method in ('mix', 'round-robin', 'random')
    union all by name
    select * exclude (published_scenario, published_model)
        replace (panel_position + 1 as panel_position)
    from played_similarities
    where published_scenario = 'glam' and published_model = 'gpt2-large' and panel <> 'ratio'
)

select * from panels
order by scenario, model, panel_position, key_position, key, step
