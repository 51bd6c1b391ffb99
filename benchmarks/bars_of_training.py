"""Bars of training: steps, gradient statistics, rules, the loss, interruptions, a GPU."""

from benchmarks.bar import Bar, Record

SAME = ("persimmon", "litgpt", "litgpt compiled")
"""Peers that compute the same as ours; the others leave out norms over queries and keys."""


def of_training(record: Record) -> list[Bar]:
    """Steps of ours beside other trainers, and beside products of matrices.

    Where several ways of ours were measured, and several peers, the best meet.
    """
    rows = []
    for size, found in record["steps"].items():
        by_speed = sorted(found, key=lambda name: -found[name]["tokens_per_cpu_second"])
        own, *_ = (name for name in by_speed if name.startswith("ours"))
        peers = [name for name in by_speed if not name.startswith("ours")]
        for those, which in ((peers, "peer's"), (SAME, "peer's that computes the same")):
            listed = [name for name in peers if name in those]
            shown = [f"{n} {found[n]['tokens_per_cpu_second']:,.0f}" for n in [own, *listed]]
            shown += [f"{n} not measured" for n in record.get("missing", {}) if those is peers]
            of_best = min(found[name]["in_steps_of_ours"] for name in listed)
            bar = Bar(
                f"tokens per CPU-second over the best {which}, {size}",
                of_best / found[own]["in_steps_of_ours"],
                "{:.2f} x",
                least=1.05 if size in ("small", "base") else None,
                peer=", ".join(shown),
                why=_SPEED,
            )
            rows.append(bar)
        rows.append(
            Bar(
                f"share of the measured rate of matrix products, {size}",
                found[own]["share_of_gemm"],
                "{:.2f}",
                least=0.7 if size == "base" else None,
                peer=peers[0],
                theirs=found[peers[0]]["share_of_gemm"],
            )
        )
    return rows


_SPEED = (
    "on a CPU every trainer sits near the rate of the same products: where a step has reached 0.9 "
    "of it, as above, a tenth is left to gain. A profile of our step at the "
    "small size has 71% in products of matrices, 13% in torch's attention kernel, which the peers "
    "call too, 5% in GELU; norms, rotations, softmax, clipping and the optimizer share the rest. "
    "Tried: compiled blocks (0.98 to 1.00 of the time), other libraries for the products (OpenBLAS "
    "77, oneDNN 64 to 69, torch's own MKL 74 GFLOP/s), turning logits into their gradient while "
    "they are in a core's cache (1.5% of the loss at 32k). `litgpt lean` and the GPT-2s leave out "
    "the norms over queries and keys, which the paper's model has"
)


def of_firing(record: Record) -> list[Bar]:
    """Steps that measure gradient statistics, and those that combine gradients."""
    rows = []
    for size, found in record["steps"].items():
        fused, beside = found["out of the pass"], found["a pass beside"]
        rows += [
            Bar(
                f"PiKE's share of the training time at T0 = {record['fires_every']:,}, {size}",
                fused["share_of_training"],
                "{:.3%}",
                most=0.002,
                peer="the paper: 1.2% to 2.4%; a pass beside",
                theirs=beside["share_of_training"],
            ),
            Bar(
                f"a firing step in steps of Mix, statistics out of the pass, {size}",
                fused["in_steps_of_mix"],
                "{:.2f} x",
                most=1.5,
                peer="a pass beside",
                theirs=beside["in_steps_of_mix"],
                why=_FIRING,
            ),
            Bar(
                f"memory of a firing step beyond Mix, in gradients, {size}",
                fused["gradients_of_extra_memory"],
                "{:+.2f}",
                most=1.0,
            ),
        ]
        rows += [
            Bar(
                f"{rule} in steps of Mix, K = {record['domains']}, {size}",
                found[rule]["in_steps_of_mix"],
                "{:.2f} x",
                most=1.3,
                peer="Mix again",
                theirs=found["mix again"]["in_steps_of_mix"],
            )
            for rule in ("pcgrad", "mgda", "cagrad")
            if rule in found
        ]
    return rows


_FIRING = (
    "the batch's 24 rows of 64 tokens pass two by two, so that products are of 128 tokens instead "
    "of 1,536 and what torch takes to start an operation counts twelve times"
)


def of_loss(record: Record) -> list[Bar]:
    """The loss over a large vocabulary."""
    rows, speeds = [], {"32k": 1.2, "250k": 1.3}
    for size, found in record["losses"].items():
        ours = found["ours"]
        others = {name: row for name, row in found.items() if name.startswith("torch")}
        best = max(others, key=lambda name: others[name]["speed_against_plain"], default=None)
        theirs = others[best] if best else {}
        rows += [
            Bar(
                f"speed of the loss over plain logits, {size}",
                ours["speed_against_plain"],
                "{:.2f} x",
                least=speeds.get(size),
                peer=best or "",
                theirs=theirs.get("speed_against_plain"),
                why=_LOSS,
            ),
            Bar(
                f"memory of the loss over plain logits, {size}",
                ours["bytes_against_plain"],
                "{:.3f}",
                most=1 / 8 if size in speeds else None,
                peer=best or "",
                theirs=theirs.get("bytes_against_plain"),
            ),
        ]
    return rows


_LOSS = (
    "both ways need the same three products, which at the 80 GFLOP/s that this processor reaches "
    "with AVX2 take 1.9 s at 32k and 7.4 s at 250k, so that nothing could be more than 1.2 and 1.4 "
    "times as fast as plain logits are here. Tried: the first tokens' logits in the place of the "
    "gradient (0.85 of the time at 250k), the first chunk without adding, no pass for a slope of "
    "1, softmax within a core's cache (together 1.5% at 32k)"
)


def of_interruption(record: Record) -> list[Bar]:
    """Kills."""
    writing = record["while_a_checkpoint_was_written"]
    other = 0 if record["same_bits"] else 1
    return [
        Bar("kills (SIGKILL) after which a run goes on", record["kills"], "{:.0f}", least=20),
        Bar("of them while a checkpoint was written", writing, "{:.0f}", least=1),
        Bar("runs that end with other bits than an unbroken one", other, "{:.0f}", most=0),
    ]


def of_mixing(record: Record) -> list[Bar]:
    """The rules that combine gradients, and Mix beside itself."""
    shown = ("mix again", "pike", "pcgrad", "mgda", "cagrad", "gradvac", "nash-mtl", "famo")
    return [
        Bar(
            f"processor time of {rule} in that of Mix, {record['domains']} domains, {size}",
            rules[rule]["on_average"],
            "{:.2f} x",
        )
        for size, rules in record["rules"].items()
        for rule in shown
        if rule in rules
    ]


_UTILISATION = {"110M-32K": 0.45, "750M-32K": 0.5, "1B-250K": 0.45}
"""Least share of the card's measured matrix products, by size."""


def of_gpu(record: Record) -> list[Bar]:
    """Steps on a GPU; all rows are there without a record, too."""
    rows = []
    for size, least in _UTILISATION.items():
        found = record.get("steps", {}).get(size)
        shown = ""
        if found is not None:
            shown = (
                f"{found['tokens_per_second']:,.0f} tokens/s, "
                f"{found['peak_memory_bytes'] / 2**30:.0f} GiB, "
                f"{found['hours_of_the_papers_steps']:,.0f} hours for 120,000 steps"
            )
        rows.append(
            Bar(
                f"model-FLOPs utilisation, {size}, context 1024, bfloat16",
                None if found is None else found["utilisation"],
                "{:.0%}",
                least=least,
                peer=shown,
            )
        )
    return rows
