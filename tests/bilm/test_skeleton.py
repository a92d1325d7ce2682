"""Modules without weights, made without torch's compiler."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import SMALL, random_bilm
from references import HERE

from spacy_elmo.bilm.loading import load_bilm
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.skeleton import shapes, without_weights


@pytest.mark.parametrize("name", ["bilm_tf_checkpoint", "many_langs_published"])
def test_names_and_shapes_are_those_of_a_bilm(name: str) -> None:
    bilm = load_bilm(HERE / name)
    assert shapes(bilm.config) == {key: tuple(t.shape) for key, t in bilm.state_dict().items()}


def test_there_are_no_values_and_no_randomness_is_used() -> None:
    state = torch.get_rng_state()
    with without_weights():
        bilm = BiLM(SMALL)
    assert all(parameter.is_meta for parameter in bilm.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_outside_weights_are_filled_as_ever() -> None:
    with without_weights():
        BiLM(SMALL)
    assert all(torch.isfinite(p).all() and p.any() for p in random_bilm().parameters())


def test_reading_a_bilm_does_not_import_torchs_compiler(bilm_dir: Path) -> None:
    """Which takes seconds, and as much memory as a small biLM."""
    program = (
        "import sys; from spacy_elmo.bilm.description import describe; "
        "from spacy_elmo.bilm.loading import find, load_bilm; source = find(sys.argv[1]); "
        "describe(source, source.inspect()); load_bilm(sys.argv[1]); "
        "print([m for m in ('sympy', 'torch._dynamo', 'torch._inductor') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(bilm_dir)], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"
