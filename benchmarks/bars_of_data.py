"""Bars of data: packing a corpus, reading batches of it, and the memory that both take."""

from benchmarks.bar import Bar, Record


def of_packing(record: Record) -> list[Bar]:
    """From documents to a corpus."""
    speed, encode = record["median"], "SentencePiece's own batch encoding"
    rows = [
        Bar(
            "speed of tokenising and packing in that of the encoding alone",
            record["relative_to_encode"]["ours"],
            "{:.2f} x",
            least=0.9,
            peer=f"{encode}: {speed['encode']:.1f} MB a CPU-second, ours {speed['ours']:.1f}",
            why="the encoding is the same call; all was measured at the load above, where "
            "rounds of the encoding alone differ by a third",
        )
    ]
    rows += [
        Bar(
            f"times as fast as {peer}, in CPU-seconds",
            speed["ours"] / speed[peer],
            "{:.1f} x",
            least=1.0,
            peer=f"{peer}: {speed[peer]:.1f} MB a CPU-second",
            why="it cannot be: it calls the same encoder. Its start takes more processor time than "
            "the text does at this size, and the median of three rounds leaves that in"
            if speed[peer] > speed["encode"]
            else "",
        )
        for peer in speed
        if peer not in ("ours", "encode")
    ]
    return rows


def of_reading(record: Record) -> list[Bar]:
    """A batch of six domains, with the pages in memory and with none of them."""
    rows = []
    for kind, clock, most in (
        ("warm", "warm_cpu_milliseconds", 0.5),
        ("cold", "cold_milliseconds", 15.0),
    ):
        taken = record[clock]
        unit = "of processor time" if "cpu" in clock else "by the clock"
        rows.append(
            Bar(
                f"milliseconds {unit} to read {record['rows']} rows of {record['length']:,} "
                f"tokens of {record['domains']} domains, {kind}",
                taken["ours"],
                "{:.2f} ms",
                most=most,
                peer=f"{record['cold_megabytes_from_disk']['ours']:.1f} MB from the disk"
                if kind == "cold"
                else "",
                why="without other readers between its batches it takes 0.21 to 0.34 ms on this "
                "machine; here five others empty the processor's caches before each, and the load "
                "was what it says above"
                if kind == "warm"
                else "",
            )
        )
        rows += [
            Bar(
                f"times as fast as {peer}, {kind}",
                taken[peer] / taken["ours"],
                "{:.1f} x",
                least=None if peer == "nanogpt" else 1.0,
                peer=f"{peer}: {taken[peer]:.2f} ms",
            )
            for peer in taken
            if peer != "ours"
        ]
    return rows


def of_memory(record: Record) -> list[Bar]:
    """Resident memory while a corpus is packed and trained on, and how it grows."""
    rows, sizes = [], record["sizes"]
    for size, found in sizes.items():
        for stage, beyond in (("pack", 0.0), ("train", found["model_megabytes"])):
            peak = found[stage]["peak_megabytes"]
            of = f"to pack {size} with {record['workers']} workers"
            if stage == "train":
                of = f"beyond weights, gradients and moments to train on {size}"
            rows.append(
                Bar(
                    f"resident memory {of}",
                    peak["rss"] - beyond,
                    "{:,.0f} MB",
                    most=500.0,
                    peer=f"shared pages divided among those that map them: "
                    f"{peak['pss'] - beyond:,.0f} MB; without files' pages: "
                    f"{peak['anonymous'] - beyond:,.0f} MB",
                    why=_MEMORY,
                )
            )
    smallest, largest = next(iter(sizes)), list(sizes)[-1]
    rows += [
        Bar(
            f"resident memory to {stage} {largest} in that to {stage} {smallest}",
            sizes[largest][stage]["peak_megabytes"]["rss"]
            / sizes[smallest][stage]["peak_megabytes"]["rss"],
            "{:.2f} x",
            most=1.1,
        )
        for stage in ("pack", "train")
    ]
    return rows


_MEMORY = (
    "with torch and the other libraries imported a process holds 260 MB before it does anything; a "
    "batch's activations and logits are counted, too. The corpus itself adds little"
)
