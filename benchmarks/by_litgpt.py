"""litgpt's GPT in the loop of its pretraining script, with Lightning's Fabric.

litgpt wants an older huggingface_hub than `[hub]` does, but needs it for no more than to fetch
weights: beside the extra `[bench]`, `pip install --no-deps litgpt` is enough.
"""

import lightning
import torch
from litgpt.config import Config
from litgpt.model import GPT
from litgpt.utils import chunked_cross_entropy
from torch import Tensor, nn

from benchmarks.trainers import CLIP, DECAY, RATE, Size, Trainer
from pipeline.model.transformer import MLP_RATIO, parameter_count


def eager(
    size: Size, tokens_BxL1: Tensor, *, compiles: bool = False, norms: bool = True
) -> Trainer:
    """The same function as ours, but for the norms' biases; `norms` are those of attention."""
    fabric = lightning.Fabric(accelerator="cpu", devices=1, precision="32-true")
    fabric.seed_everything(0, verbose=False)
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
        norm_qk=norms,
        bias=False,
    )
    net = GPT(config)
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=(0.4 / size.model.width) ** 0.5)
    net.transformer.wte.weight = net.lm_head.weight
    weights = parameter_count(net)
    model = fabric.setup(torch.compile(net) if compiles else net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=False)
    optimizer = fabric.setup_optimizers(optimizer)

    def step() -> None:
        inputs_BxL = tokens_BxL1[:, :-1].contiguous().long()
        targets_BxL = tokens_BxL1[:, 1:].contiguous().long()
        loss = chunked_cross_entropy(model(inputs_BxL), targets_BxL)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=CLIP)
        optimizer.step()
        optimizer.zero_grad()

    return Trainer(step, weights)


def compiled(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """The same, compiled, as the script does."""
    return eager(size, tokens_BxL1, compiles=True)


def lean(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """Without norms over queries and keys."""
    return eager(size, tokens_BxL1, norms=False)


def lean_compiled(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """The same, compiled."""
    return eager(size, tokens_BxL1, compiles=True, norms=False)
