-- Every accuracy, at every step, of each task under the score that the paper's tables are shown by:
-- of a downstream task the mean log-likelihood of a token of the candidates (per_token) in the
-- formulation that the configuration names (paper.headline), of continuations the log-likelihood less
-- that without the context (pmi).
with headline as (
    select coalesce(
        (select config ->> '$.paper.headline' from experiment),
        (select settings ->> '$.headline' from defaults where kind = 'paper')
    ) as formulation
)

select
    a.run,
    a.step,
    a.task,
    a.shots,
    a.formulation,
    a.metric,
    a.value,
    a.stderr,
    a.examples,
    a.step = max(a.step) over (partition by a.run) as final
from accuracies as a
cross join headline as h
where (a.formulation = h.formulation and a.metric = 'per_token') or a.metric = 'pmi'
order by a.run, a.step, a.task, a.shots
