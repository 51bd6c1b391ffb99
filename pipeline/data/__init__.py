"""From text to batches, in the order of the stages.

`sources` fetches documents (`local_files`, `python_stdlib`, `synthetic` and `hub` are kinds of
source, `file_formats` reads their files, `source_interface` says what they share, `document_store`
are the files between the stages),
`tokenizer` makes a SentencePiece model of them, `packing` writes their tokens into `shards`,
`batches` mixes rows of several domains, and `rows_for_trainers` gives them to other trainers.
`ngrams` says which windows of tokens occur elsewhere. What a configuration sets lies in modules
that a plan can import: `file_settings`, `corpus_settings`, and `synthetic` and `python_stdlib`
themselves.

`SOURCES` is the table of the readers of each kind of source. They are imported when asked for,
since `datasets` takes seconds to import and may not be installed.
"""

SOURCES = {
    "huggingface": "pipeline.data.hub:HuggingFaceSource",
    "local": "pipeline.data.local_files:LocalSource",
    "python": "pipeline.data.python_stdlib:PythonSource",
    "synthetic": "pipeline.data.synthetic:SyntheticSource",
}
