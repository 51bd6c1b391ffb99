"""Corpora to checkpoints: `pike pretrain`."""


rule pretrain:
    """One run. Its checkpoints and records lie beside the manifest, which appears last: a failed
    job loses its declared outputs, but never a checkpoint."""
    input:
        unpack(reads("pretrain")),
    output:
        f"{RESULTS}/runs/{{run}}/{FINAL}",
    log:
        f"{RESULTS}/logs/pretrain/{{run}}.log",
    retries: TAKES.retries("pretrain")
    # One for each process.
    threads: TAKES.training_process_count
    resources:
        **TAKES.resources("pretrain"),
        # The signal at which a training saves and goes on: USR1 or USR2.
        save_on="USR1",
        # Minutes that it waits for another process that writes the run.
        wait=0,
    params:
        file=f"{RESULTS}/runs/{{run}}/run.json",
        data=READS.run_arguments,
        together=TAKES.process_and_sharding_options,
    shell:
        "spawn {resources.python:q} -m pipeline pretrain {params.file:q}"
        " {params.data:q} --device {resources.device:q} --accelerator {resources.accelerator:q} {params.together} --threads {threads}"
        " --save-on {resources.save_on:q} --wait {resources.wait} > {log:q} 2>&1"


rule mixture:
    """The mixture that a finder makes of the runs of its proxies."""
    input:
        unpack(reads("mixture")),
    output:
        f"{RESULTS}/mixtures/{{mixture}}.json",
    log:
        f"{RESULTS}/logs/mixtures/{{mixture}}.log",
    resources:
        **TAKES.resources("mixture"),
    params:
        file=f"{RESULTS}/settings/mixtures/{{mixture}}.json",
    shell:
        "spawn {resources.python:q} -m pipeline mixture {params.file:q}"
        " --out {output:q} > {log:q} 2>&1"
