"""The paper's theory, checked with numbers: `pike theory`."""


rule theory:
    """Example 1 and the bounds; what is wrong in the paper's derivations."""
    input:
        unpack(reads("theory")),
    output:
        f"{RESULTS}/theory/{FINAL}",
    log:
        f"{RESULTS}/logs/theory.log",
    threads: 1
    resources:
        python=PYTHON,
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "exec {resources.python:q} -m pipeline theory --out {params.folder:q} > {log:q} 2>&1"
