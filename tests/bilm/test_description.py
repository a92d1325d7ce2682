from dataclasses import replace

import pytest
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.description import count_parameters, describe
from spacy_elmo.bilm.loading import find

ORIGINAL = BiLMConfig(
    char_dim=16,
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    n_highway=2,
    projection_dim=512,
    cell_dim=4096,
    n_layers=2,
    cell_clip=3,
    projection_clip=3,
    skip_connections=True,
)


@pytest.mark.parametrize("changes", [{}, {"cell_dim": 8}, {"n_highway": 0, "n_layers": 1}])
def test_parameters_are_counted_as_a_bilm_has_them(changes):
    config = replace(SMALL, **changes)
    assert count_parameters(config) == sum(p.numel() for p in random_bilm(config).parameters())


def test_the_original_has_as_many_parameters_as_was_published():
    assert round(count_parameters(ORIGINAL) / 1e6, 1) == 93.6


def test_the_reference_model_is_described(reference):
    source = find(reference)
    rows = describe(source, source.inspect())
    assert rows["Layout"] == "options.json + weights.hdf5"
    assert rows["Files"].split(", ") == [str(path) for path in source.files]
    assert rows["Size"] == "0.5 MB"
    assert rows["Layers"] == "3 (the tokens and 2 LSTM layers), 32 wide"
    assert rows["Characters"].startswith("261 ids of width 4; a word is at most 48 UTF-8 bytes")
    assert rows["Char CNN"].startswith("124 filters (4 of width 1 + 8 of width 2 + ")
    assert rows["Token projection"] == "124 -> 16"
    assert rows["LSTM"] == "64 cells, projected to 16"
    assert rows["Clipping"] == "cells clipped at +-3, projection clipped at +-3"
    assert rows["Skip connections"] == "no"


def test_what_a_bilm_lacks_is_described(bilm_dir):
    config = replace(
        SMALL, filters=((1, 8),), cell_dim=8, cell_clip=None, projection_clip=0.5, n_highway=0
    )
    rows = describe(find(bilm_dir), config)
    assert rows["Token projection"] == "none"
    assert rows["LSTM"] == "8 cells, no projection"
    assert rows["Clipping"] == "cells not clipped, projection clipped at +-0.5"
    assert rows["Highway layers"] == "0"
    assert rows["Skip connections"] == "yes"
