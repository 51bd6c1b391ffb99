"""Models of transformers in the plain loop and in transformers' own Trainer; extra `[bench]`."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from benchmarks.trainers import CLIP, DECAY, MANY, RATE, Endless, Loop, Size, Trainer
from pipeline.model import hf_config
from pipeline.model.transformer import MLP_RATIO, parameter_count


def plain(net: nn.Module, tokens_BxL1: Tensor) -> Trainer:
    """The loop that everybody writes, around a model of transformers."""
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)

    def step() -> None:
        optimizer.zero_grad()
        logits_NxV = net(tokens_BxL1[:, :-1], use_cache=False).logits.flatten(0, 1)
        F.cross_entropy(logits_NxV.float(), tokens_BxL1[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()

    return Trainer(step, parameter_count(net))


def made(config: Any) -> nn.Module:
    """A model of transformers with first weights."""
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


def persimmon(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """The same function as ours."""
    values = hf_config.config(size.model, size.vocabulary, size.length)
    return plain(made(transformers.PersimmonConfig(**values)), tokens_BxL1)


def gpt2_model(size: Size) -> nn.Module:
    """Learned positions, biases; no norm over queries and keys."""
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary,
        n_positions=size.length,
        n_embd=size.model.width,
        n_layer=size.model.layers,
        n_head=size.model.heads,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    )
    return made(config)


def gpt2(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """GPT-2 in the plain loop."""
    return plain(gpt2_model(size), tokens_BxL1)


def llama(size: Size, tokens_BxL1: Tensor) -> Trainer:
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
    return plain(made(config), tokens_BxL1)


class _Pauses(transformers.TrainerCallback):
    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._pause()


def gpt2_by_trainer(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """GPT-2 in transformers' own Trainer, whose other arguments have their defaults."""
    net = gpt2_model(size)

    def run(pause: Callable[[], None]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=size.rows,
                max_steps=MANY,
                learning_rate=RATE,
                weight_decay=DECAY,
                max_grad_norm=CLIP,
                use_cpu=True,
                logging_strategy="no",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            rows = Endless(tokens_BxL1[:, :-1])
            callbacks = [_Pauses(pause)]
            transformers.Trainer(net, arguments, train_dataset=rows, callbacks=callbacks).train()

    return Trainer(Loop(run).step, parameter_count(net))
