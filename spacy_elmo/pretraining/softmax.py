"""The output layer and its loss: full or sampled softmax, with gradients made in the same pass.

Scores of all rows against all words never exist at once: each block of rows leaves its share of the
loss and of the gradients behind, so memory stays small and every score is touched while in cache.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

# Scores (rows x words) that are held at once.
BLOCK_SCORES = 2**20


class Candidates(NamedTuple):
    """ids (n,): The words that all rows are compared with; correction (vocabulary,): what to subtract
    from a word's score, the logarithm of its expected count."""

    ids: Tensor
    correction: Tensor

    def to(self, device: torch.device) -> "Candidates":
        return Candidates(self.ids.to(device), self.correction.to(device))


class OutputLayer(nn.Module):
    """Scores of the vocabulary's words, shared by both directions (bilm-tf, `_build_loss`)."""

    def __init__(self, vocabulary_size: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, projection_dim))
        self.bias = nn.Parameter(torch.empty(vocabulary_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        nn.init.zeros_(self.bias)

    def loss(self, hidden: Tensor, targets: Tensor, candidates: Candidates | None = None) -> Tensor:
        """Negative log likelihood, summed over rows, in nats.

        candidates: Of a sampled softmax; None: the full softmax.
        *Shape:* hidden (rows, projection_dim), targets (rows,).
        """
        if candidates is None:
            ids = torch.arange(len(self.bias), device=targets.device)
            correction = torch.zeros_like(self.bias)
        else:
            ids, correction = candidates
        loss: Tensor = _SharedSoftmax.apply(
            hidden, self.weight, self.bias, targets, ids, correction
        )
        return loss

    @torch.no_grad()
    def negative_log_likelihood(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Of each row, by the full softmax. *Shape:* (rows, projection_dim), (rows,) -> (rows,)."""
        rows = max(1, BLOCK_SCORES // len(self.bias))
        losses = [
            functional.cross_entropy(
                functional.linear(block, self.weight, self.bias), target, reduction="none"
            )
            for block, target in zip(hidden.split(rows), targets.split(rows), strict=True)
        ]
        return torch.cat(losses)


class LogUniformSampler:
    """Distinct words, drawn with P(word) = log((id + 2) / (id + 1)) / log(vocabulary + 1).

    The words stand by falling frequency, so this is about their unigram distribution. As TensorFlow's
    `log_uniform_candidate_sampler`: draws go on until n distinct words are found, and a word's
    expected count is 1 - (1 - P(word)) ** draws.
    """

    def __init__(self, vocabulary_size: int, n_samples: int, seed: int) -> None:
        self.vocabulary_size = vocabulary_size
        self.n_samples = n_samples
        self.random = np.random.default_rng(seed)
        ids = np.arange(vocabulary_size, dtype=np.float64)
        self._log_unpicked = np.log1p(-np.log1p(1 / (ids + 1)) / np.log(vocabulary_size + 1))

    def sample(self) -> Candidates:
        first, draws = self._draw()
        expected = -np.expm1(draws * self._log_unpicked)
        return Candidates(
            torch.from_numpy(first), torch.from_numpy(np.log(expected).astype(np.float32))
        )

    def _draw(self) -> tuple[np.ndarray, int]:
        """The first n_samples distinct words of a sequence of draws, and its length."""
        drawn = np.empty(0, dtype=np.int64)
        while True:
            uniform = self.random.random(2 * self.n_samples)
            more = np.exp(uniform * np.log(self.vocabulary_size + 1)).astype(np.int64) - 1
            drawn = np.concatenate([drawn, np.clip(more, 0, self.vocabulary_size - 1)])
            ids, at = np.unique(drawn, return_index=True)
            if len(ids) >= self.n_samples:
                order = np.argsort(at)[: self.n_samples]
                return ids[order], int(at[order[-1]]) + 1


class _SharedSoftmax(torch.autograd.Function):
    """Rows against their own target and the candidates other than it.

    A candidate that is a row's target (an accidental hit) does not count for that row; where all
    words are candidates and nothing is corrected this is the full softmax.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        ids: Tensor,
        correction: Tensor,
    ) -> Tensor:
        kind = hidden.device.type
        low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        shared, shared_bias = weight[ids].to(low), bias[ids] - correction[ids]
        own = weight[targets]
        own_score = (hidden * own).sum(dim=1) + bias[targets] - correction[targets]
        place = torch.full_like(bias, -1, dtype=torch.int64)
        place[ids] = torch.arange(len(ids), device=ids.device)
        hits = place[targets]
        d_hidden = torch.empty_like(hidden)
        d_shared = torch.zeros_like(shared, dtype=weight.dtype)
        d_shared_bias = torch.zeros_like(shared_bias)
        d_own_score = torch.empty_like(own_score)
        loss = hidden.new_zeros(())
        size = max(1, BLOCK_SCORES // len(ids))
        for start in range(0, len(hidden), size):
            at = slice(start, start + size)
            rows = hidden[at].to(low)
            scores = hidden.new_empty(len(rows), len(ids) + 1)
            torch.add(torch.mm(rows, shared.t()), shared_bias, out=scores[:, :-1])
            scores[:, -1] = own_score[at]
            hit = (hits[at] >= 0).nonzero().squeeze(1)
            scores[hit, hits[at][hit]] = -torch.inf
            probabilities = functional.softmax(scores, dim=1)
            # The logarithm of this column alone; what underflows counts as the smallest number.
            loss -= probabilities[:, -1].clamp_min(torch.finfo(scores.dtype).tiny).log().sum()
            d_own_score[at] = probabilities[:, -1] - 1
            d_scores = probabilities[:, :-1]
            d_shared_bias += d_scores.sum(dim=0)
            d_scores = d_scores.to(low)
            d_hidden[at] = torch.mm(d_scores, shared)
            d_shared += torch.mm(d_scores.t(), rows)
        d_hidden.addcmul_(own, d_own_score[:, None])
        ctx.save_for_backward(
            hidden, targets, ids, d_hidden, d_shared, d_shared_bias, d_own_score, bias
        )
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, ids, d_hidden, d_shared, d_shared_bias, d_own, bias = ctx.saved_tensors
        d_weight = hidden.new_zeros(len(bias), hidden.shape[1])
        d_bias = torch.zeros_like(bias)
        d_weight.index_add_(0, ids, d_shared * grad)
        d_bias.index_add_(0, ids, d_shared_bias * grad)
        d_weight.index_add_(0, targets, hidden * (d_own * grad)[:, None])
        d_bias.index_add_(0, targets, d_own * grad)
        return d_hidden * grad, d_weight, d_bias, None, None, None
