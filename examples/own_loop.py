"""PiKE in a training loop of one's own: plain torch, three made-up domains, some seconds.

    python examples/own_loop.py

Of this repository it uses `pike_mixing` alone. `train` is the loop; `statistics` measures what
PiKE asks for.

Shapes: K domains, B rows of a batch, L symbols of a row, V symbols in all, P parameters.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pike_mixing import PiKE, Signals, Statistics

LENGTH, SYMBOLS = 18, 16


def train(model, optimizer, domains, steps, b):
    """Trains on batches that PiKE fills; returns the weights of every step."""
    method = PiKE(zeta1=1.0, zeta2=0.2, every=20, first=20, rows=16)
    state = method.init(tuple(domains), seed=0)
    history = []
    for step in range(steps):
        if method.needs().statistics.is_due(step):
            measured = statistics(model, [draw(16) for draw in domains.values()])
            state = method.observe(state, Signals(step, b, statistics=measured))
        count_K = method.allocate(state, step, b)
        rows_K = [draw(n) for draw, n in zip(domains.values(), count_K.tolist(), strict=True)]
        loss = row_losses(model, torch.cat(rows_K)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(method.weights(state, step))
    return history


def statistics(model, rows_K):
    """Squared norm and variance of each domain's gradient, from its rows one by one."""
    parameters, measured = list(model.parameters()), []
    for rows_RxL in rows_K:
        n, total_P, squares, losses = len(rows_RxL), 0.0, 0.0, 0.0
        for row_L in rows_RxL:
            loss = row_losses(model, row_L[None]).mean()
            gradient = torch.autograd.grad(loss, parameters)
            gradient_P = torch.cat([part.flatten() for part in gradient])
            total_P, losses = total_P + gradient_P, losses + loss.item()
            squares += gradient_P.square().sum().item()
        squared_norm = (total_P / n).square().sum().item()
        variance = (squares - n * squared_norm) / (n - 1)
        measured.append((squared_norm, squared_norm - variance / n, variance, losses / n, n))
    return Statistics(*np.array(measured, dtype=np.float64).T)


def row_losses(model: nn.Module, tokens_BxL: Tensor) -> Tensor:
    """Mean loss of each row, in nats per symbol: the next symbol from the two before it."""
    pairs_BxLx2 = tokens_BxL.unfold(1, 2, 1)[:, :-1]
    logits_BxVxL = model(pairs_BxLx2).transpose(1, 2)
    return functional.cross_entropy(logits_BxVxL, tokens_BxL[:, 2:], reduction="none").mean(dim=1)


def tiny_model() -> nn.Module:
    """Two symbols in, logits of the next one out."""
    symbols = 3 * SYMBOLS
    return nn.Sequential(
        nn.Embedding(symbols, 16),
        nn.Flatten(start_dim=2),
        nn.Linear(32, 64),
        nn.ReLU(),
        nn.Linear(64, symbols),
    )


def made_up(seed):
    """Three domains: each draws rows of its own symbols."""
    random = torch.Generator().manual_seed(seed)

    def counting(rows):
        """Each symbol is the one before plus one: soon learnt."""
        start_Bx1 = torch.randint(SYMBOLS, (rows, 1), generator=random)
        return (start_Bx1 + torch.arange(LENGTH)) % SYMBOLS

    def adding(rows):
        """Each symbol is the sum of the two before: learnt slowly."""
        symbols = [torch.randint(SYMBOLS, (rows,), generator=random) for _ in range(2)]
        while len(symbols) < LENGTH:
            symbols.append((symbols[-1] + symbols[-2]) % SYMBOLS)
        return SYMBOLS + torch.stack(symbols, dim=1)

    def noise(rows):
        """Each symbol is drawn anew: there is nothing to learn but their frequency."""
        return 2 * SYMBOLS + torch.randint(SYMBOLS, (rows, LENGTH), generator=random)

    return {"counting": counting, "adding": adding, "noise": noise}


def main() -> None:
    """Trains and prints weights and losses."""
    torch.manual_seed(0)
    model, domains = tiny_model(), made_up(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    history = train(model, optimizer, domains, steps=240, b=48)
    print("step ", *(f"{name:>9}" for name in domains))
    for step in range(0, len(history), 40):
        print(f"{step:5}", *(f"{weight:9.3f}" for weight in history[step].tolist()))
    for name, draw in made_up(2).items():
        with torch.no_grad():
            print(f"loss of {name}: {row_losses(model, draw(256)).mean():.3f} nats")


if __name__ == "__main__":
    main()
