-- What the paper states in numbers outside its tables of results, in the unit's own scale and as
-- intervals: "1 day" is 12 to 36 hours. A printed integer is exact to half of its last digit.
select
    place,
    quantity,
    subject,
    scenario,
    params,
    method,
    against,
    metric,
    task,
    shots,
    value as shown,
    unit,
    quote,
    coalesce(scale, 1) * cast(value as double) as value,
    coalesce(scale, 1) * (cast(value as double) - 0.5 * 10.0 ^ -decimals) as low,
    coalesce(scale, 1) * (cast(value as double) + 0.5 * 10.0 ^ -decimals) as high
from paper_statements
where quantity <> 'words'
order by quantity, subject, place, task
