"""Checkpoints to perplexities and accuracies: `pike evaluate`."""


rule evaluate:
    """All checkpoints of one run that its evaluation asks for."""
    input:
        unpack(reads("evaluate")),
    output:
        f"{RESULTS}/runs/{{run}}/evaluations/{FINAL}",
    log:
        f"{RESULTS}/logs/evaluate/{{run}}.log",
    threads: 1
    resources:
        **TAKES.of("evaluate"),
        python=PYTHON,
        device="auto",
    params:
        file=f"{RESULTS}/runs/{{run}}/evaluation.json",
        folder=f"{RESULTS}/runs/{{run}}",
        corpora=READS.corpora_folder,
        tasks=f"{RESULTS}/tasks",
    shell:
        "exec {START} {resources.python:q} -m pipeline evaluate {params.file:q} --run {params.folder:q}"
        " --corpora {params.corpora:q} --tokenizer {input.tokenizer:q} --tasks {params.tasks:q}"
        " --device {resources.device:q} > {log:q} 2>&1"
