-- Effective number of domains of a run: exp(H), H the entropy of the shares of the rows of its last quarter.
select run, exp(-sum(case when share > 0 then share * ln(share) else 0 end order by domain)) as effective
from late_shares
group by run
order by run
