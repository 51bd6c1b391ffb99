"""Sources to shards of tokens, and what downstream tasks ask: `pike download`, `pike tokenizer`,
`pike pack`, `pike fetch`."""


rule download:
    """A source's documents, with its revision and licence on record."""
    input:
        remade("download"),
        given(READS.source_files),
    output:
        f"{RESULTS}/data/{{source}}/{FINAL}",
    log:
        f"{RESULTS}/logs/download/{{source}}.log",
    resources:
        **TAKES.of("download"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/sources/{{source}}.json",
        content=content(READS.source_files),
        folder=subpath(output[0], parent=True),
    shell:
        "exec {resources.python:q} -m pipeline download {params.file:q}"
        " --out {params.folder:q} > {log:q} 2>&1"


rule tokenizer:
    """A SentencePiece model: a given file, or one trained on training documents."""
    input:
        given(READS.tokenizer_file),
        documents=remade("tokenizer", READS.tokenizer_documents),
    output:
        model=f"{RESULTS}/tokenizers/{{tokenizer}}.model",
        manifest=f"{RESULTS}/tokenizers/{{tokenizer}}.json",
    log:
        f"{RESULTS}/logs/tokenizer/{{tokenizer}}.log",
    resources:
        **TAKES.of("tokenizer"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/tokenizers/{{tokenizer}}.json",
        content=content(READS.tokenizer_file),
        folders=lambda wildcards, input: [
            str(Path(path).parent) for path in input.documents
        ],
    shell:
        "exec {resources.python:q} -m pipeline tokenizer {params.file:q}"
        " --sources {params.folders:q} --out {output.model:q} > {log:q} 2>&1"


rule pack:
    """A source's documents as shards of tokens."""
    input:
        remade("pack", READS.decontamination_tasks),
        given(READS.decontamination_files),
        documents=f"{RESULTS}/data/{{source}}/{FINAL}",
        tokenizer=f"{RESULTS}/tokenizers/{{tokenizer}}.model",
    output:
        f"{RESULTS}/corpora/{{tokenizer}}/{{source}}/{FINAL}",
    log:
        f"{RESULTS}/logs/pack/{{tokenizer}}/{{source}}.log",
    threads: lambda wildcards: planner.processes(PLAN.sources[wildcards.source])
    resources:
        **TAKES.of("pack"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/corpora/{{tokenizer}}/{{source}}.json",
        content=content(READS.decontamination_files),
        documents=subpath(input.documents, parent=True),
        folder=subpath(output[0], parent=True),
    shell:
        "exec {resources.python:q} -m pipeline pack {params.file:q}"
        " --documents {params.documents:q} --tokenizer {input.tokenizer:q}"
        " --workers {threads} --out {params.folder:q} > {log:q} 2>&1"


rule fetch:
    """A downstream task's data set, checked against its known checksums."""
    input:
        given(READS.task_files),
    output:
        f"{RESULTS}/tasks/{{task}}/{FINAL}",
    log:
        f"{RESULTS}/logs/fetch/{{task}}.log",
    # What cannot be fetched should be known before hours of training.
    priority: 100
    resources:
        **TAKES.of("fetch"),
        python=PYTHON,
    params:
        given=READS.task_arguments,
        settings=lambda wildcards: PLAN.tasks[wildcards.task],
        code=lambda wildcards: stages.code("fetch", wildcards.task),
        content=content(READS.task_files),
        folder=subpath(output[0], ancestor=2),
    shell:
        "exec {resources.python:q} -m pipeline fetch {wildcards.task:q} --out {params.folder:q}"
        " {params.given:q} > {log:q} 2>&1"
