"""Checkpoints -> perplexities and accuracies with their standard errors.

evaluate      the stage: every kept checkpoint of a run on every domain
questions     settings, and what they make of each domain: windows and items
perplexity    nats per token on packed validation windows, summed by document
items         multiple-choice items from held-out documents: the task `continuation-{domain}`
repeats       which windows of tokens occur in the training text
choice        items + model -> picks, accuracies and baselines
scoring       log-likelihoods of continuations
uncertainty   means over clustered data with their standard errors
"""
