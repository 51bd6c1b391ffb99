-- Every accuracy, at every step, of each task under the score that the paper's tables are shown by:
-- of a downstream task the mean log-likelihood of a token of candidates that are not shown (cf,
-- per_token), of continuations the log-likelihood less that without the context (pmi).
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
where (a.formulation = 'cf' and a.metric = 'per_token') or a.metric = 'pmi'
order by a.run, a.step, a.task, a.shots
