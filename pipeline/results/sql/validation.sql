-- Validation loss of every run, evaluated step and domain, with errors and baselines.
--
-- nll_stderr is clustered by document. By the delta method, since perplexity = exp(nll),
--     SE(perplexity) = perplexity * SE(nll),
-- and bits per byte is nll times a constant of the text, so
--     SE(bits per byte) = bits per byte / nll * SE(nll).
-- uniform, unigram and floor are the losses of a uniform guess over the vocabulary, of the training
-- text's unigram counts, and of the source's own entropy where it is known; all in nats per token.
select
    p.run,
    r.scenario,
    r.model,
    r.method,
    r.seed,
    coalesce(d.position, 1000) as domain_position,
    coalesce(d.target, 1) as target,
    p.step,
    cast(round(r.tokens * (p.step / r.steps)) as bigint) as trained_tokens,
    p.step = max(p.step) over (partition by p.run) as final,
    p.domain,
    p.nll,
    p.stderr as nll_stderr,
    p.perplexity,
    p.perplexity * p.stderr as perplexity_stderr,
    p.bits_per_byte,
    p.bits_per_byte / nullif(p.nll, 0) * p.stderr as bits_per_byte_stderr,
    p.tokens,
    c.uniform_nats as uniform,
    c.unigram_nats as unigram,
    c.floor_nats as "floor"
from perplexities as p
join runs as r using (run)
left join domains as d using (scenario, domain)
left join corpora as c
    on r.tokenizer = c.tokenizer and p.domain = c.source and c.split = 'validation'
order by p.run, p.step, domain_position, p.domain
