-- Artifacts that today's code, settings or inputs would not make again as they are.
--   code      the run's recorded code fingerprint is not the one that the experiment expects
--   settings  the run was made under other settings than the experiment's
--   input     an artifact's manifest recorded another SHA-256 for an input than lies there now
select
    'run/' || run as artifact,
    'code' as reason,
    code_fingerprint as recorded,
    expected_fingerprint as expected
from runs
where expected_fingerprint is not null and code_fingerprint is distinct from expected_fingerprint
union all
select
    'run/' || run as artifact,
    'settings' as reason,
    sha256(settings::text) as recorded,
    sha256(expected_settings::text) as expected
from runs
where settings::text <> expected_settings::text
union all
select
    artifact,
    'input ' || input as reason,
    recorded_sha256 as recorded,
    current_sha256 as expected
from lineage_inputs
where recorded_sha256 <> current_sha256
order by artifact, reason
