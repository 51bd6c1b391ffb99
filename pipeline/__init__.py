"""PiKE and its rivals: how to mix data domains in language-model pretraining, run and compared.

The data's way, as a reading list; each stage meets the next through files only.

    data.sources     a named corpus            -> documents
    data.tokenizer   training documents        -> a SentencePiece model
    data.packing     documents + tokenizer     -> shards of tokens
    data.batches     shards + counts           -> rows of one batch
    mixing           what was measured         -> how many rows of each domain come next
    model, optim     rows                      -> losses; gradients -> an update
    gradients        rows of each domain       -> norms, variances and inner products
    pretrain         run.json + corpora        -> checkpoints + records
    finders          finished proxy runs       -> a mixture for a further run
    tasks            fetched data sets         -> questions with candidate answers
    evaluation       checkpoint + corpora      -> perplexities, accuracies
    probe            checkpoint + corpora      -> cosine of the domains' gradients
    export           checkpoint + tokenizer    -> a directory that transformers loads
    results          all records               -> one database -> tables, figures, a report

`settings` holds what a run is a function of, `planning` expands an experiment into runs and jobs,
`files` makes every file appear whole or not at all.
"""
