"""Loss and perplexity against a biLM that is read a word at a time."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.characters import encode_boundaries, encode_words
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.lstm import LSTMState
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.pretraining.evaluation import evaluate
from spacy_elmo.pretraining.objective import LanguageModel, detach
from spacy_elmo.pretraining.softmax import OutputLayer
from spacy_elmo.pretraining.vocabulary import Vocabulary
from spacy_elmo.pretraining.windows import TextWindows

VOCABULARY = Vocabulary(["a", "bb", "ccc", "dd"])
DOCUMENTS = [
    [["a", "bb", "zz"], ["ccc"], ["dd", "a"]],
    [["bb", "bb", "a", "ccc", "dd", "é"]],
    [["a"], ["dd", "bb"]],
]


def make() -> LanguageModel:
    torch.manual_seed(0)
    config = BiLMConfig(
        char_dim=4,
        filters=((1, 4), (2, 6)),
        n_highway=1,
        projection_dim=6,
        cell_dim=10,
        n_layers=2,
        max_characters=8,
        cell_clip=3.0,
        projection_clip=3.0,
        skip_connections=True,
    )
    model = LanguageModel(BiLM(config), OutputLayer(len(VOCABULARY), 6))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.6)
    return model.eval()


@torch.no_grad()
def by_hand(model: LanguageModel, documents: list, reset: str, backward: bool) -> tuple:
    """Sum of negative log likelihoods and the number of predictions, a word at a time."""
    bilm, output = model.bilm, model.output
    boundaries = bilm.encode_words(torch.from_numpy(encode_boundaries(8)))
    stack = bilm.backward_lm if backward else bilm.forward_lm
    total, n = 0.0, 0
    for document in documents:
        state = LSTMState(torch.zeros(2, 1, 6), torch.zeros(2, 1, 10))
        for sentence in document:
            if reset == "sentence":
                state = LSTMState(torch.zeros(2, 1, 6), torch.zeros(2, 1, 10))
            words = sentence[::-1] if backward else sentence
            vectors = bilm.encode_words(torch.from_numpy(encode_words(words, 8)))
            inputs = torch.cat([boundaries[1:] if backward else boundaries[:1], vectors])
            end = "<S>" if backward else "</S>"
            targets = [*VOCABULARY.ids(words), VOCABULARY.words.index(end)]
            for vector, target in zip(inputs, targets, strict=True):
                outputs, state = stack(vector[None], [1], state)
                scores = output.weight @ outputs[-1][0] + output.bias
                total -= float(torch.log_softmax(scores, dim=0)[target])
                n += 1
    return total, n


@pytest.mark.parametrize("reset", ["document", "sentence"])
def test_perplexity_by_hand(reset: str) -> None:
    model = make()
    found = evaluate(model, DOCUMENTS, VOCABULARY, reset=reset)
    ahead, n = by_hand(model, DOCUMENTS, reset, backward=False)
    behind, _ = by_hand(model, DOCUMENTS, reset, backward=True)
    assert found.forward == pytest.approx(math.exp(ahead / n), rel=1e-5)
    assert found.backward == pytest.approx(math.exp(behind / n), rel=1e-5)
    assert found.mean == pytest.approx(math.exp((ahead + behind) / (2 * n)), rel=1e-5)
    assert (found.sentences, found.tokens, found.unknown) == (6, 15, 2)
    assert n == 21
    assert "2 tokens (13.33%) are out of the vocabulary" in found.protocol


def test_the_order_of_documents_does_not_matter() -> None:
    model = make()
    one = evaluate(model, DOCUMENTS, VOCABULARY)
    assert evaluate(model, DOCUMENTS[::-1], VOCABULARY).mean == pytest.approx(one.mean, rel=1e-6)


def test_evaluation_leaves_the_model_as_it_was() -> None:
    model = make().train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random = torch.get_rng_state()
    evaluate(model, DOCUMENTS, VOCABULARY)
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def windows(documents: list, steps: int) -> TextWindows:
    return TextWindows(iter(documents), VOCABULARY, n_streams=2, steps=steps, reset="document")


def test_the_training_loss_is_the_scored_one_and_state_is_carried() -> None:
    model = make()
    # Two streams of twelve positions, which windows of four fill.
    documents = [[["a", "bb", "zz"], ["ccc"], ["dd", "a", "a", "bb", "ccc"]]] * 2
    totals = []
    for steps in (4, 12):
        trained = scored = 0.0
        state = other = model.bilm.zero_state(2)
        for window in windows(documents, steps):
            loss, state = model(window, state)
            state = detach(state)
            own, other = model.score(window, other)
            assert own.positions == 2 * steps
            trained += float(loss.detach()) * 2 * own.positions
            scored += float(own.forward + own.backward)
        assert trained == pytest.approx(scored, rel=1e-5)
        totals.append(trained)
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)


def test_every_weight_has_a_gradient() -> None:
    model = make()
    loss, _ = model(next(windows(DOCUMENTS * 3, 8)), model.bilm.zero_state(2))
    loss.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


def test_gradients_are_those_of_a_plain_loss() -> None:
    model = make().double()
    window = next(windows(DOCUMENTS * 3, 8))
    state = model.bilm.zero_state(2)
    loss, _ = model(window, state)
    own = torch.autograd.grad(loss, list(model.parameters()))
    table = model.bilm.encode_words(
        torch.from_numpy(np.concatenate([encode_boundaries(8), encode_words(window.words, 8)]))
    )
    total = torch.zeros((), dtype=torch.double)
    for stack, side in (
        (model.bilm.forward_lm, window.forward),
        (model.bilm.backward_lm, window.backward),
    ):
        inputs = table[side.inputs.flatten()]
        for depth, layer in enumerate(stack.layers):
            before = LSTMState(state.forward.hidden[depth], state.forward.cell[depth])
            output, _ = layer._read(inputs, [2] * 8, before, window.resets)
            inputs = output + inputs if depth else output
        scores = inputs @ model.output.weight.t() + model.output.bias
        total = total + torch.nn.functional.cross_entropy(scores, side.targets.flatten()) / 2
    plain = torch.autograd.grad(total, list(model.parameters()))
    for a, b in zip(own, plain, strict=True):
        torch.testing.assert_close(a, b)


def test_the_held_out_text_of_this_repository_is_readable() -> None:
    shared = Path(__file__).parents[2] / ".." / "shared" / "data" / "pretrain-en" / "dev.txt.xz"
    if not shared.is_file():
        pytest.skip("../shared/data/pretrain-en is not here")
    from spacy_elmo.pretraining.corpus import tokenized_text

    assert sum(len(s) for d in tokenized_text(str(shared)) for s in d) == 100_485
