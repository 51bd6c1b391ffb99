"""Corpora to checkpoints: `pike pretrain`."""


rule pretrain:
    """One run. Its checkpoints and records lie beside the manifest, which appears last: a failed
    job loses its declared outputs, but never a checkpoint."""
    input:
        corpora_read("pretrain"),
    output:
        f"{RESULTS}/runs/{{run}}/{FINAL}",
    log:
        f"{RESULTS}/logs/pretrain/{{run}}.log",
    threads: 1
    resources:
        python=PYTHON,
        device="auto",
    params:
        file=f"{RESULTS}/runs/{{run}}/run.json",
        settings=of_run,
        code=lambda wildcards: runs.code("pretrain", PLAN.runs[wildcards.run]["rule"]),
        corpora=corpora_folder,
    shell:
        "exec {resources.python:q} -m pipeline pretrain {params.file:q}"
        " --corpora {params.corpora:q} --device {resources.device:q} --threads {threads}"
        " > {log:q} 2>&1"
