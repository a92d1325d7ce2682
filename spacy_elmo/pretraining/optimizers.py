"""PyTorch's optimisers, named in a config, with the learning rate as one of Thinc's schedules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# spaCy imports this module where it lists optimisers, and there torch may not be needed.
if TYPE_CHECKING:
    from torch.optim import Optimizer

# Groups of parameters, as PyTorch's optimisers take them.
Parameters = list[dict[str, Any]]
# What a config gives: a number, or one of Thinc's schedules.
Rate = float | Iterator[float]


@dataclass(frozen=True)
class Optimization:
    """How parameters are updated: create builds the optimiser, learn_rate gives its rates in turn."""

    create: Callable[[Parameters], "Optimizer"]
    learn_rate: Rate


def adam(
    learn_rate: Rate,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> Optimization:
    """Adam (`spacy-elmo.Adam.v1`)."""
    import torch

    return Optimization(
        lambda parameters: torch.optim.Adam(parameters, betas=(beta1, beta2), eps=eps, fused=True),
        learn_rate,
    )


def adamw(
    learn_rate: Rate,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> Optimization:
    """Adam with decoupled weight decay (`spacy-elmo.AdamW.v1`)."""
    import torch

    return Optimization(
        lambda parameters: torch.optim.AdamW(
            parameters, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, fused=True
        ),
        learn_rate,
    )


def adagrad(learn_rate: Rate, initial_accumulator_value: float = 1.0) -> Optimization:
    """Adagrad, with the original ELMo's initial accumulator (`spacy-elmo.Adagrad.v1`)."""
    import torch

    return Optimization(
        lambda parameters: torch.optim.Adagrad(
            parameters, initial_accumulator_value=initial_accumulator_value
        ),
        learn_rate,
    )


class LearnRate:
    """The rate at a step, which never goes back; a fresh one can start anywhere."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._next_step = 0
        self._current = 0.0

    def at(self, step: int) -> float:
        """step: From 0."""
        if isinstance(self._rate, int | float):
            return float(self._rate)
        while self._next_step <= step:
            self._current = next(self._rate)
            self._next_step += 1
        return self._current
