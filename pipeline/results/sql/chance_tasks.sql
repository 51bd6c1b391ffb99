-- Tasks whose accuracy is chance by construction: continuations of a synthetic language without memory
-- (order 0), where no candidate is likelier than another. They are shown, and enter no mean.
select 'continuation-' || s.key as task
from experiment as e, json_each(e.config, '$.sources') as s
where json_extract_string(s.value, '$.kind') = 'synthetic'
    and cast(json_extract_string(s.value, '$.order') as integer) = 0
order by task
