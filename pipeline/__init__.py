"""The reproduction: a workflow that trains, evaluates and compares data-mixing methods.

The folders, in the order of the data; stages meet through files only.

    data        text from anywhere        -> documents -> shards of tokens -> batches
    tasks       data sets of others       -> questions with candidate answers
    planning    a configuration           -> runs, jobs, their settings and cost
    model       rows of tokens            -> losses, gradients, updates, checkpoints
    training    run.json + corpora        -> checkpoints + records: the only training loop
    evaluation  a checkpoint + corpora    -> perplexities, accuracies, cosines of gradients
    theory      nothing                   -> the paper's bounds and examples, checked with numbers
    results     all records               -> one database -> tables, figures, a report

`runtime` holds what all of them stand on (files that appear whole, locks, devices, processes),
`paper` the published numbers. The mixing methods themselves are the package `pike_mixing`.
"""
