-- Effective number of domains at each step: exp(H(w)), H the entropy of the sampling weights; K when
-- they are equal, 1 when one domain has all.
select
    run,
    step,
    -- 0 ln 0 is 0, and ln(0) is an error.
    exp(-sum(case when weight > 0 then weight * ln(weight) else 0 end order by domain)) as effective
from weights
group by run, step
order by run, step
