"""Checkpoints to the similarity of the domains' gradients: `pike probe`."""


rule probe:
    """All checkpoints of one run that its probe asks for."""
    input:
        unpack(reads("probe")),
    output:
        f"{RESULTS}/runs/{{run}}/probes/{FINAL}",
    log:
        f"{RESULTS}/logs/probe/{{run}}.log",
    threads: 1
    resources:
        **TAKES.of("probe"),
        python=PYTHON,
        device="auto",
    params:
        file=f"{RESULTS}/runs/{{run}}/probe.json",
        folder=f"{RESULTS}/runs/{{run}}",
        corpora=READS.corpora_folder,
    shell:
        "exec {START} {resources.python:q} -m pipeline probe {params.file:q} --run {params.folder:q}"
        " --corpora {params.corpora:q} --device {resources.device:q} > {log:q} 2>&1"
