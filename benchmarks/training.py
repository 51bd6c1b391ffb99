"""A training step of ours beside those of other trainers, and beside the machine's matrix products.

    python -m benchmarks.training [--sizes small base] [--rounds N] [--trainers ours persimmon ...]

Every trainer takes whole steps (forward, loss, backward, clipping at 1, AdamW) on its own copy of a
decoder of the same shape and on the same tokens, all in float32:

    ours             `StepGradient`, `PipelinePasses` and AdamW, as `pike pretrain` has Mix
    persimmon        transformers' model that computes the same as ours, in the plain loop
    litgpt           litgpt's GPT, set to compute the same as ours, in the loop of its pretraining
                     script (Lightning's Fabric)
    litgpt lean      the same without norms over queries and keys

`compiled` behind a name: with `compile: true`, and litgpt compiled whole. Times are processor time
beside ours of the same round. The limit is what the same processor does in products of the step's
own matrices (`gemm`), measured in every round: a step's share of it is its model FLOPs
(`training.step_log`) by its processor time over that rate.

It needs the extra `[bench]`, and litgpt beside it: `pip install --no-deps litgpt`, whose own
requirements would take an older huggingface_hub. A peer whose package is not there is named as
missing. Compiling takes minutes before the first round; a trainer of the base size takes 2 GB.

Record: benchmarks/results/training.json. Shapes: B rows, L tokens of context, V vocabulary.
"""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import measure
from benchmarks.steps import Size
from pike_mixing import method_registry
from pike_mixing.torch.chunked_loss import a_times_b_transposed
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.model import adamw as optim
from pipeline.model import hf_config
from pipeline.model.pipeline_passes import PipelinePasses
from pipeline.model.transformer import Transformer, initial_model
from pipeline.runtime import devices
from pipeline.settings import MLP_RATIO
from pipeline.training import step_log

RATE, DECAY, CLIP = 1e-4, 0.1, 1.0
SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 8, 64, 15),
    "small": Size(settings.Model(4, 256, 4, 64), 4096, 8, 256, 15),
    "base": Size(settings.Model(12, 768, 12, 64), 32_128, 1, 1024, 5),
}
Step = Callable[[], None]


def main() -> None:
    options: dict[str, Any] = {"sizes": ["small", "base"], "trainers": list(TRAINERS)}
    chosen = measure.arguments(__doc__, "training", **options, rounds=0)
    devices.keep_freed_memory()
    packages = {name: TRAINERS[name][0] for name in chosen.trainers}
    versions = measure.versions(*sorted(set(packages.values()) - {""}))
    missing = {name: p for name, p in packages.items() if p and p not in versions}
    found, sizes = {}, {}
    for name in chosen.sizes:
        size = SIZES[name]._replace(rounds=chosen.rounds or SIZES[name].rounds)
        sizes[name] = size.described()
        found[name] = measured(size, [n for n in packages if n not in missing])
        columns = ("milliseconds", "tokens_per_cpu_second", "in_steps_of_ours", "share_of_gemm")
        print(measure.table(name, found[name], *columns), flush=True)
    print(f"not installed: {missing}" if missing else "")
    result = {"sizes": sizes, "steps": found, "missing": missing, "versions": versions}
    measure.record(chosen, result, ("sizes", "steps"))


def step_of_ours(
    net: Transformer, recipe: settings.Training, rows: int, device: torch.device
) -> Callable[[Tensor], None]:
    """Steps as `pike pretrain` takes them, of rows [B, L + 1], so many rows in a pass."""
    if recipe.compile:
        devices.use_torch_compile_cache()
    net = net.to(device).configure(recipe)
    optimizer = optim.build_adamw(net, recipe)
    passes = PipelinePasses(net)
    passing = StepGradient(
        net, passes, micro_batch_rows=rows, statistics_micro_batch_rows=1, max_norm=recipe.clip_norm
    )
    method = method_registry.build_method("mix", {}, "benchmark")
    state, count_K = method.init(("all",), 0), np.array([recipe.rows])

    def step(tokens_BxL1: Tensor) -> None:
        batch = DealtRows(passes, tokens_BxL1.to(device), count_K, rows)
        passing.compute(method, state, 0, batch)
        optimizer.step()

    return step


def ours(size: Size, tokens_BxL1: Tensor, *, compiled: bool = False) -> Step:
    recipe = measure.steady(size.rows, size.length, RATE, compile=compiled)
    net = initial_model(size.model, size.vocabulary, 0)
    step = step_of_ours(net, recipe, size.rows, torch.device("cpu"))
    return lambda: step(tokens_BxL1)


def persimmon(size: Size, tokens_BxL1: Tensor) -> Step:
    """The loop that everybody writes, around transformers' model that computes what ours does."""
    import transformers

    values = hf_config.persimmon_config(size.model, size.vocabulary, size.length)
    net = transformers.PersimmonForCausalLM(transformers.PersimmonConfig(**values)).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)

    def step() -> None:
        optimizer.zero_grad()
        logits_BxLxV = net(tokens_BxL1[:, :-1], use_cache=False).logits
        F.cross_entropy(logits_BxLxV.flatten(0, 1), tokens_BxL1[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()

    return step


def litgpt(size: Size, tokens_BxL1: Tensor, *, compiled: bool = False, lean: bool = False) -> Step:
    """GPT of litgpt; it computes what ours does, unless it is lean, but for the norms' biases."""
    import lightning
    from litgpt.config import Config
    from litgpt.model import GPT
    from litgpt.utils import chunked_cross_entropy

    fabric = lightning.Fabric(accelerator="cpu", devices=1, precision="32-true")
    config = Config(
        block_size=size.length,
        n_layer=size.model.layers,
        n_head=size.model.heads,
        n_embd=size.model.width,
        head_size=size.model.head_width,
        intermediate_size=MLP_RATIO * size.model.width,
        vocab_size=size.vocabulary,
        padded_vocab_size=size.vocabulary,
        rotary_percentage=1.0,
        parallel_residual=False,
        norm_qk=not lean,
        bias=False,
    )
    net = GPT(config)
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=(0.4 / size.model.width) ** 0.5)
    net.transformer.wte.weight = net.lm_head.weight
    model = fabric.setup(torch.compile(net) if compiled else net)
    adamw = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=False)
    optimizer = fabric.setup_optimizers(adamw)
    inputs_BxL = tokens_BxL1[:, :-1].contiguous()
    targets_BxL = tokens_BxL1[:, 1:].contiguous()

    def step() -> None:
        fabric.backward(chunked_cross_entropy(model(inputs_BxL), targets_BxL))
        fabric.clip_gradients(model, optimizer, max_norm=CLIP)
        optimizer.step()
        optimizer.zero_grad()

    return step


TRAINERS: dict[str, tuple[str, Callable[..., Step], dict[str, bool]]] = {
    "ours": ("", ours, {}),
    "ours compiled": ("", ours, {"compiled": True}),
    "persimmon": ("transformers", persimmon, {}),
    "litgpt": ("litgpt", litgpt, {}),
    "litgpt compiled": ("litgpt", litgpt, {"compiled": True}),
    "litgpt lean": ("litgpt", litgpt, {"lean": True}),
    "litgpt lean compiled": ("litgpt", litgpt, {"lean": True, "compiled": True}),
}
"""Package, function and how, by name."""


def products(size: Size) -> tuple[Step, float]:
    """Multiplies the step's own matrices, once each; and the FLOPs of that."""
    tokens, width, inner = size.rows * size.length, size.model.width, MLP_RATIO * size.model.width
    attention = size.model.heads * size.model.head_width
    shapes = [(width, 3 * attention), (attention, width), (width, inner), (inner, width)]
    pairs = [(torch.randn(tokens, a), torch.randn(b, a)) for a, b in shapes]

    def multiply() -> None:
        for left, right in pairs:
            a_times_b_transposed(left, right)

    return multiply, sum(2.0 * tokens * a * b for a, b in shapes)


def measured(size: Size, names: list[str]) -> dict[str, dict[str, Any]]:
    """What a step of each trainer takes with a model of this size; `ours` must be among them."""
    tokens_BxL1 = size.tokens()
    made = {n: TRAINERS[n][1](size, tokens_BxL1, **TRAINERS[n][2]) for n in names}
    multiply, flops = products(size)
    for _ in range(2):
        once, step = measure.timed(multiply).processor, measure.timed(made["ours"]).processor
    # About half as long as a step, so that a busy moment counts for both.
    times = max(1, round(step / once / 2))

    def gemm() -> None:
        for _ in range(times):
            multiply()

    made["gemm"] = gemm
    seconds = measure.seconds_of(made, size.rounds)
    rate = flops * times / statistics.median(seconds.pop("gemm"))
    net, tokens = initial_model(size.model, size.vocabulary, 0), size.rows * size.length
    work = step_log.model_flops_per_token(net, size.model, size.length) * tokens
    result = {}
    for name, own in seconds.items():
        ratio, median = measure.ratios(own, seconds["ours"]), statistics.median(own)
        result[name] = {
            "milliseconds": 1e3 * median,
            "tokens_per_cpu_second": tokens / median,
            "in_steps_of_ours": ratio["median"],
            "range": ratio["range"],
            "share_of_gemm": work / median / rate,
            "gemm_flops_per_cpu_second": rate,
            "seconds": own,
        }
    return result


if __name__ == "__main__":
    main()
