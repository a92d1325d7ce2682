"""The output layer against second implementations in plain lines."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from spacy_elmo.pretraining import softmax
from spacy_elmo.pretraining.softmax import Candidates, LogUniformSampler, OutputLayer


@pytest.fixture(params=[2**20, 100])
def _block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all rows in one block, and with few rows a block."""
    monkeypatch.setattr(softmax, "BLOCK_SCORES", request.param)


def make(vocabulary_size: int, rows: int) -> tuple[OutputLayer, Tensor, Tensor]:
    torch.manual_seed(0)
    layer = OutputLayer(vocabulary_size, 6).double()
    torch.nn.init.normal_(layer.bias)
    hidden = torch.randn(rows, 6, dtype=torch.double, requires_grad=True)
    return layer, hidden, torch.randint(0, vocabulary_size, (rows,))


def grads(loss: Tensor, layer: OutputLayer, hidden: Tensor) -> tuple[Tensor, ...]:
    return (loss, *torch.autograd.grad(loss, (hidden, layer.weight, layer.bias)))


@pytest.mark.usefixtures("_block")
def test_full_softmax_is_cross_entropy() -> None:
    layer, hidden, targets = make(40, 17)
    own = grads(2.5 * layer.loss(hidden, targets), layer, hidden)
    scores = hidden @ layer.weight.t() + layer.bias
    plain = grads(2.5 * cross_entropy(scores, targets, reduction="sum"), layer, hidden)
    for a, b in zip(own, plain, strict=True):
        torch.testing.assert_close(a, b)
    each = layer.negative_log_likelihood(hidden, targets)
    torch.testing.assert_close(each.sum() * 2.5, plain[0].detach())


@pytest.mark.usefixtures("_block")
def test_sampled_softmax_as_tensorflow_defines_it() -> None:
    """A row's own word and the candidates other than it, each score less its log expected count."""
    layer, hidden, targets = make(40, 17)
    candidates = LogUniformSampler(40, 12, seed=1).sample()
    ids, correction = candidates.ids, candidates.correction.double()
    own = grads(layer.loss(hidden, targets, Candidates(ids, correction)), layer, hidden)
    loss = hidden.new_zeros(())
    hits = 0
    for row, target in zip(hidden, targets.tolist(), strict=True):
        words = [target, *(word for word in ids.tolist() if word != target)]
        hits += len(words) == len(ids)
        scores = layer.weight[words] @ row + layer.bias[words] - correction[words]
        loss = loss - torch.log_softmax(scores, dim=0)[0]
    assert 0 < hits < 17
    for a, b in zip(own, grads(loss, layer, hidden), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_expected_counts_are_those_of_many_samples() -> None:
    sampler = LogUniformSampler(200, 50, seed=0)
    trials = 2000
    found, expected = np.zeros(200), np.zeros(200)
    for _ in range(trials):
        ids, correction = sampler.sample()
        assert len(set(ids.tolist())) == 50
        found[ids.numpy()] += 1
        expected += np.exp(correction.numpy())
    error = np.abs(found - expected) / trials
    assert error.max() < 0.05
    assert found[0] / trials > 0.99
    assert error.mean() < 0.012


def test_the_sampled_gradient_points_where_the_full_one_does() -> None:
    """With most words sampled, and their counts corrected, the loss comes near the full one."""
    layer, hidden, targets = make(100, 30)
    full = grads(layer.loss(hidden, targets), layer, hidden)
    sampler = LogUniformSampler(100, 80, seed=0)
    mean = [torch.zeros_like(value) for value in full]
    for _ in range(200):
        for total, value in zip(
            mean, grads(layer.loss(hidden, targets, sampler.sample()), layer, hidden), strict=True
        ):
            total += value.detach() / 200
    assert float(mean[0] / full[0].detach()) == pytest.approx(1.0, abs=0.05)
    for a, b in zip(mean[1:], full[1:], strict=True):
        assert float(torch.cosine_similarity(a.flatten(), b.flatten(), dim=0)) > 0.98


def test_the_sampler_goes_on_from_its_random_state() -> None:
    one, other = LogUniformSampler(1000, 20, seed=0), LogUniformSampler(1000, 20, seed=5)
    one.sample()
    other.random.bit_generator.state = one.random.bit_generator.state
    assert torch.equal(one.sample().ids, other.sample().ids)


def test_large_scores_stay_finite() -> None:
    layer, hidden, targets = make(40, 17)
    values = grads(layer.loss(hidden * 1e4, targets), layer, hidden)
    assert all(torch.isfinite(value).all() for value in values)
