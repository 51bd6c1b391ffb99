"""Checkpoints to perplexities, accuracies and the similarity of the domains' gradients: `pike
evaluate`, `pike probe`."""


rule evaluate:
    """All checkpoints of one run that its evaluation asks for."""
    input:
        unpack(reads("evaluate")),
    output:
        f"{RESULTS}/runs/{{run}}/evaluations/{FINAL}",
    log:
        f"{RESULTS}/logs/evaluate/{{run}}.log",
    resources:
        **TAKES.resources("evaluate"),
    params:
        file=f"{RESULTS}/runs/{{run}}/evaluation.json",
        folder=f"{RESULTS}/runs/{{run}}",
        corpora=READS.corpora_folder,
        tasks=f"{RESULTS}/tasks",
    shell:
        "spawn {resources.python:q} -m pipeline evaluate {params.file:q} --run {params.folder:q}"
        " --corpora {params.corpora:q} --tokenizer {input.tokenizer:q} --tasks {params.tasks:q}"
        " --device {resources.device:q} --accelerator {resources.accelerator:q} > {log:q} 2>&1"


rule probe:
    """All checkpoints of one run that its probe asks for."""
    input:
        unpack(reads("probe")),
    output:
        f"{RESULTS}/runs/{{run}}/probes/{FINAL}",
    log:
        f"{RESULTS}/logs/probe/{{run}}.log",
    resources:
        **TAKES.resources("probe"),
    params:
        file=f"{RESULTS}/runs/{{run}}/probe.json",
        folder=f"{RESULTS}/runs/{{run}}",
        corpora=READS.corpora_folder,
    shell:
        "spawn {resources.python:q} -m pipeline probe {params.file:q} --run {params.folder:q}"
        " --corpora {params.corpora:q} --device {resources.device:q} --accelerator {resources.accelerator:q} > {log:q} 2>&1"
