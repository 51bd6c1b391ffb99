"""Sources to shards of tokens, and what downstream tasks ask: `pike download`, `pike tokenizer`,
`pike pack`, `pike fetch`."""


rule download:
    """A source's documents, with its revision and licence on record."""
    input:
        unpack(reads("download")),
    output:
        f"{RESULTS}/data/{{source}}/{FINAL}",
    log:
        f"{RESULTS}/logs/download/{{source}}.log",
    retries: TAKES.retries("download")
    resources:
        **TAKES.resources("download"),
    params:
        file=f"{RESULTS}/settings/sources/{{source}}.json",
        folder=subpath(output[0], parent=True),
    # A source may have hundreds of files, which Snakemake would list.
    message:
        "download {wildcards.source}"
    shell:
        "spawn {resources.python:q} -m pipeline download {params.file:q}"
        " --out {params.folder:q} > {log:q} 2>&1"


rule tokenizer:
    """A tokenizer: a given file, or one trained on training documents."""
    input:
        unpack(reads("tokenizer")),
    output:
        # It stays until its job replaces it: the job looks first whether it stands.
        model=grown(f"{RESULTS}/tokenizers/{{tokenizer}}.model"),
        manifest=f"{RESULTS}/tokenizers/{{tokenizer}}.json",
    log:
        f"{RESULTS}/logs/tokenizer/{{tokenizer}}.log",
    resources:
        **TAKES.resources("tokenizer"),
    params:
        file=f"{RESULTS}/settings/tokenizers/{{tokenizer}}.json",
        folders=lambda wildcards, input: [
            str(Path(path).parent) for path in input.documents
        ],
    shell:
        "spawn {resources.python:q} -m pipeline tokenizer {params.file:q}"
        " --sources {params.folders:q} --out {output.model:q} > {log:q} 2>&1"


rule pack:
    """A source's documents as shards of tokens."""
    input:
        unpack(reads("pack")),
    output:
        f"{RESULTS}/corpora/{{tokenizer}}/{{source}}/{FINAL}",
    log:
        f"{RESULTS}/logs/pack/{{tokenizer}}/{{source}}.log",
    threads: lambda wildcards: planner.packing_processes(PLAN.sources[wildcards.source])
    resources:
        **TAKES.resources("pack"),
    params:
        file=f"{RESULTS}/settings/corpora/{{tokenizer}}/{{source}}.json",
        documents=f"{RESULTS}/data/{{source}}",
        folder=subpath(output[0], parent=True),
    shell:
        "spawn {resources.python:q} -m pipeline pack {params.file:q}"
        " --documents {params.documents:q} --tokenizer {input.tokenizer:q}"
        " --workers {threads} --out {params.folder:q} > {log:q} 2>&1"


rule fetch:
    """A downstream task's data set, checked against its known checksums."""
    input:
        unpack(reads("fetch")),
    output:
        f"{RESULTS}/tasks/{{task}}/{FINAL}",
    log:
        f"{RESULTS}/logs/fetch/{{task}}.log",
    # What cannot be fetched should be known before hours of training.
    priority: 100
    resources:
        **TAKES.resources("fetch"),
    params:
        given=READS.task_source_arguments,
        folder=subpath(output[0], ancestor=2),
    shell:
        "spawn {resources.python:q} -m pipeline fetch {wildcards.task:q} --out {params.folder:q}"
        " {params.given:q} > {log:q} 2>&1"
