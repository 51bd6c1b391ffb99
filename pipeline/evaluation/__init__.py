"""Checkpoints -> perplexities and accuracies with their standard errors, gradients' similarities.

evaluate      the stage: a run's kept checkpoints on its domains
questions     settings, and what they make of each domain: windows and items
perplexity    nats per token on packed validation windows, summed by document
items         multiple-choice items from held-out documents: the task `continuation-{domain}`
answers       items + model -> picks, accuracies and their rows
log_likelihoods   questions + model -> log-likelihood of each candidate
gradient_probe    how alike the domains' gradients are: `pike probe`
prompt_encoding   prompts of downstream tasks -> tokens, cut where a candidate begins
"""
