"""A training step of ours beside those of other trainers, and beside the machine's matrix products.

    python -m benchmarks.training [--sizes small,base] [--rounds 7] [--threads 1]

Every trainer takes whole steps in a loop as its own users write it (forward, loss, backward,
clipping at 1, AdamW) on its own copy of a decoder of the same shape and on the same tokens, all
in float32:

    ours            `pipeline.backward.Pass` and the optimizer, as `pike pretrain` runs Mix
    persimmon       transformers' model that computes the same as ours
    gpt2            transformers' GPT-2
    llama           transformers' Llama, its gated MLP as wide as gives it as many weights

In each round every trainer takes a step, in an order that turns, and is compared with ours of that
round in processor time; medians and ranges are reported. The limit is what the same processor does
in products of the step's own matrices (`gemm`), measured in every round, too: a step's share of it
is its model FLOPs (`pipeline.throughput`) by its processor time over that rate. It needs the extra
`[hf]`.
"""

import argparse
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from benchmarks import machine
from pipeline import devices, optim, settings, throughput
from pipeline.backward import Batch, Pass
from pipeline.export import architecture
from pipeline.mixing import registry
from pipeline.model import MLP_RATIO, initialised, parameter_count

ROOT = Path(__file__).resolve().parents[1]
RATE, CLIP = 1e-4, 1.0


class Size(NamedTuple):
    """A model and its batch."""

    model: settings.Model
    vocabulary: int
    rows: int
    length: int


SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 8, 64),
    "small": Size(settings.Model(4, 256, 4, 64), 4096, 8, 256),
    "base": Size(settings.Model(12, 768, 12, 64), 32_128, 1, 1024),
}
Step = Callable[[Tensor], float]


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="small,base")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / "training.json"
    )
    chosen = parser.parse_args()
    devices.keep_freed_memory()
    torch.set_num_threads(chosen.threads)
    before, found = os.getloadavg()[0], {}
    for name in chosen.sizes.split(","):
        found[name] = measured(SIZES[name], chosen.rounds)
        print(table(name, found[name]), flush=True)
    result = {
        "rounds": chosen.rounds,
        "sizes": {
            name: {**SIZES[name]._asdict(), "model": dataclasses.asdict(SIZES[name].model)}
            for name in found
        },
        "steps": found,
        "transformers": transformers.__version__,
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def ours(size: Size) -> tuple[Step, int]:
    """A step as `pike pretrain` takes it, and the number of weights."""
    recipe = settings.Training(
        rows=size.rows,
        length=size.length,
        steps=1,
        warmup_steps=0,
        peak_learning_rate=RATE,
        initial_learning_rate=RATE,
        final_learning_rate=RATE,
        checkpoint_every=1,
        resume_every=1,
    )
    net = initialised(size.model, size.vocabulary, 0)
    optimizer = optim.adamw(net, recipe)
    passing = Pass(net, optimizer, CLIP, size.rows)
    method = registry.build("mix", {}, "benchmark")
    state, count_K = method.init(("all",), 0), torch.tensor([size.rows])

    def step(tokens_BxL1: Tensor) -> float:
        left = passing.leave_gradient(method, state, 0, Batch(tokens_BxL1, count_K), None)
        optimizer.step()
        assert left.seen.loss_K is not None
        return float(left.seen.loss_K[0])

    return step, parameter_count(net)


def plain(net: nn.Module, logits: Callable[[Tensor], Tensor]) -> tuple[Step, int]:
    """The loop that everybody writes."""
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.1)

    def step(tokens_BxL1: Tensor) -> float:
        optimizer.zero_grad()
        logits_NxV = logits(tokens_BxL1[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits_NxV.float(), tokens_BxL1[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        return float(loss.detach())

    return step, parameter_count(net)


def _of_transformers(config: Any) -> tuple[Step, int]:
    torch.manual_seed(0)
    net = transformers.AutoModelForCausalLM.from_config(config)
    return plain(net, lambda tokens: net(tokens, use_cache=False).logits)


def persimmon(size: Size) -> tuple[Step, int]:
    """The same function as ours."""
    values = architecture.config(size.model, size.vocabulary, size.length)
    return _of_transformers(transformers.PersimmonConfig(**values))


def gpt2(size: Size) -> tuple[Step, int]:
    """Learned positions, biases; no norm over queries and keys."""
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary,
        n_positions=size.length,
        n_embd=size.model.width,
        n_layer=size.model.layers,
        n_head=size.model.heads,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    )
    return _of_transformers(config)


def llama(size: Size) -> tuple[Step, int]:
    """RMS norms and a gated MLP, whose three matrices hold as much as two of ours."""
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.model.width,
        intermediate_size=MLP_RATIO * size.model.width * 2 // 3,
        num_hidden_layers=size.model.layers,
        num_attention_heads=size.model.heads,
        max_position_embeddings=size.length,
        tie_word_embeddings=True,
    )
    return _of_transformers(config)


TRAINERS: dict[str, Callable[[Size], tuple[Step, int]]] = {
    "ours": ours,
    "persimmon": persimmon,
    "gpt2": gpt2,
    "llama": llama,
}


def products(size: Size) -> tuple[Callable[[], None], float]:
    """Multiplies the step's own matrices, once each; and the FLOPs of that."""
    tokens, width, inner = size.rows * size.length, size.model.width, MLP_RATIO * size.model.width
    attention = size.model.heads * size.model.head_width
    shapes = [(width, 3 * attention), (attention, width), (width, inner), (inner, width)]
    pairs = [(torch.randn(tokens, a), torch.randn(a, b)) for a, b in shapes]

    def multiply() -> None:
        for left, right in pairs:
            left @ right

    return multiply, sum(2.0 * tokens * a * b for a, b in shapes)


def measured(size: Size, rounds: int) -> dict[str, dict[str, Any]]:
    """What a step of each trainer takes with a model of this size."""
    made = {name: make(size) for name, make in TRAINERS.items()}
    multiply, flops = products(size)
    generator = torch.Generator().manual_seed(0)
    tokens_BxL1 = torch.randint(size.vocabulary, (size.rows, size.length + 1), generator=generator)
    names, seconds = list(made), {name: [] for name in [*made, "gemm"]}
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.process_time()
            made[name][0](tokens_BxL1)
            seconds[name].append(time.process_time() - began)
        # As long as a step, so that a busy moment counts for both.
        began, times = time.process_time(), 0
        while not times or time.process_time() - began < seconds["ours"][-1] / 2:
            multiply()
            times += 1
        seconds["gemm"].append((time.process_time() - began) / times)
    # The first round warms up.
    kept = {name: values[1:] for name, values in seconds.items()}
    rate = flops / statistics.median(kept["gemm"])
    net = initialised(size.model, size.vocabulary, 0)
    of_ours = throughput.training_flops(net, size.model, size.length) * tokens_BxL1[:, 1:].numel()
    found = {}
    for name in names:
        ratios = [a / b for a, b in zip(kept[name], kept["ours"], strict=True)]
        median = statistics.median(kept[name])
        found[name] = {
            "parameters": made[name][1],
            "milliseconds": 1e3 * median,
            "tokens_per_cpu_second": tokens_BxL1[:, 1:].numel() / median,
            "in_steps_of_ours": statistics.median(ratios),
            "range": [min(ratios), max(ratios)],
            "share_of_gemm": of_ours / median / rate,
            "gemm_flops_per_cpu_second": rate,
        }
    return found


def table(size: str, found: dict[str, dict[str, Any]]) -> str:
    """The result as text."""
    head = ("ms", "token/cpu s", "x ours", "range", "of gemm")
    lines = [f"{size:<12}" + "".join(f"{name:>14}" for name in head)]
    for name, row in found.items():
        low, high = row["range"]
        cells = [
            f"{row['milliseconds']:.1f}",
            f"{row['tokens_per_cpu_second']:,.0f}",
            f"{row['in_steps_of_ours']:.2f}",
            f"{low:.2f}-{high:.2f}",
            f"{row['share_of_gemm']:.2f}",
        ]
        lines.append(f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
