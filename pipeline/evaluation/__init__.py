"""Checkpoints -> perplexities, accuracies and similarities of gradients, with errors."""
