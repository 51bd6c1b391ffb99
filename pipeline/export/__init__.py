"""A run's model for others: a directory that Hugging Face's transformers loads (extra `[hf]`).

`directory` writes and checks it, of what `architecture` makes of the weights, `fast_tokenizer` of
the tokenizer and `card` of the manifests.
"""
