from dataclasses import replace

import pytest
import torch
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.char_cnn import CharCNN, Highway
from spacy_elmo.bilm.characters import encode_words

# Words of every length that 50 characters leave room for, and longer ones.
WORDS = ["x" * n for n in range(46)] + ["y" * 47, "z" * 48, "w" * 49, "日" * 40]


@pytest.fixture(params=["relu", "tanh"])
def cnn(request) -> CharCNN:
    """With filters as wide as the original's: the wider, the more padding counts. In float64."""
    config = replace(SMALL, filters=((1, 4), (3, 8), (7, 8)), activation=request.param)
    return random_bilm(config).token_encoder.double()


def ids(words: list[str]) -> torch.Tensor:
    return torch.from_numpy(encode_words(words, 50))


@torch.no_grad()
def test_leaving_out_padding_changes_nothing(cnn, monkeypatch):
    alone = torch.cat([cnn(ids([word])) for word in WORDS])
    monkeypatch.setattr(CharCNN, "_crop", lambda self, char_ids: char_ids)
    whole = cnn(ids(WORDS))
    torch.testing.assert_close(alone, whole, rtol=0, atol=1e-12)


@torch.no_grad()
def test_padding_is_left_out(cnn):
    """The whole array is 50 wide; 3 characters and a window of 7 are enough for a word of one."""
    assert cnn._crop(ids(["x"])).shape == (1, 10)
    assert cnn._crop(ids(["x", "x" * 48])).shape == (2, 50)


@torch.no_grad()
def test_padding_takes_part_in_the_maximum(cnn):
    """As in the reference implementation: a window of padding alone may be the strongest."""
    cnn.embedding.weight[260] = 100 * cnn.convolutions[2].weight[0, :, 3]
    short, full = cnn(ids(["x"])), cnn(ids(["x" * 48]))
    cnn.embedding.weight[260] = 0
    assert not torch.equal(cnn(ids(["x"])), short)
    assert torch.equal(cnn(ids(["x" * 48])), full)


@torch.no_grad()
def test_other_words_of_a_batch_do_not_matter(cnn):
    together = cnn(ids(WORDS))
    torch.testing.assert_close(cnn(ids(WORDS[::-1])).flip(0), together, rtol=0, atol=1e-12)
    torch.testing.assert_close(cnn(ids(WORDS[7:9])), together[7:9], rtol=0, atol=1e-12)


def test_no_words_have_no_vectors(cnn):
    assert cnn(ids([])).shape == (0, SMALL.projection_dim)


@torch.no_grad()
@pytest.mark.parametrize(("carry", "expected"), [(50.0, [6.0, 0.0]), (-50.0, [2.0, -1.0])])
def test_a_highway_gate_opens_for_the_transformed_side(carry, expected):
    highway = Highway(2)
    highway.transform.weight.copy_(3 * torch.eye(2))
    highway.transform.bias.zero_()
    highway.carry.weight.zero_()
    highway.carry.bias.fill_(carry)
    assert highway(torch.tensor([[2.0, -1.0]])).tolist() == [expected]
