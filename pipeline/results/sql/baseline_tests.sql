-- accuracy_tests against the baseline, whether the method is shown to be ahead, and the test in words.
select
    t.*,
    coalesce(shown(t.seeds, t.p_holm, t.difference), false) as significant,
    test_in_words(t.seeds, t.p_holm, t.difference, t.stderr) as judgement
from accuracy_tests as t
join experiment as e on t.against = e.baseline
order by t.scenario, t.model, t.shots, t.formulation, t.metric, t.method, t.task
