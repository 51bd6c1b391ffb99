"""Checkpoints -> perplexities and accuracies with their standard errors, gradients' similarities.

evaluate                the stage: a run's kept checkpoints on its domains
questions               what settings ask of each domain and task: windows and question sets
perplexity              nats per token on packed validation windows, summed by document
held_out_choices        multiple choice from held-out documents: the task `continuation-{domain}`
prompt_encoding         prompts of downstream tasks -> tokens, cut where a candidate begins
answers                 question set + model -> picks, accuracies and their rows
log_likelihoods         questions + model -> log-likelihood of each candidate
gradient_similarities   how alike the domains' gradients are: `pike probe`
"""
