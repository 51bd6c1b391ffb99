"""The decoder: its loss, optimizer, gradients, checkpoints, and its form for transformers."""
