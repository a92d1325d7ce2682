"""Layout 6, this package's own: mapped into memory, checked, told apart."""

import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import native
from spacy_elmo.bilm.loading import find, load_bilm


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_weights_are_mapped_not_copied(bilm_dir: Path) -> None:
    bilm = load_bilm(bilm_dir)
    mapped = [
        [int(end, 16) for end in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith(str(bilm_dir / native.WEIGHTS))
    ]
    for name, parameter in bilm.named_parameters():
        at = parameter.data_ptr()
        assert any(start <= at < end for start, end in mapped), name


def test_a_mapped_bilm_stays_what_it_was_when_its_file_is_replaced(tmp_path: Path) -> None:
    native.write(SMALL, random_bilm().state_dict(), tmp_path)
    bilm = load_bilm(tmp_path)
    native.write(SMALL, random_bilm(seed=1).state_dict(), tmp_path)
    expected = random_bilm().state_dict()
    assert all(torch.equal(t, expected[key]) for key, t in bilm.state_dict().items())


def test_training_a_mapped_bilm_leaves_the_file_alone(tmp_path: Path) -> None:
    native.write(SMALL, random_bilm().state_dict(), tmp_path)
    before = (tmp_path / native.WEIGHTS).read_bytes()
    with torch.no_grad():
        for parameter in load_bilm(tmp_path).parameters():
            parameter.zero_()
    assert (tmp_path / native.WEIGHTS).read_bytes() == before


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    tensors = random_bilm().state_dict()
    tensors["forward_lm.layers.1.bias"][3] = torch.nan
    native.write(SMALL, tensors, tmp_path)
    with pytest.raises(BiLMError, match=r"'forward_lm\.layers\.1\.bias' holds NaN or infinite"):
        load_bilm(tmp_path)


def test_the_output_layer_and_its_words_are_found_beside(tmp_path: Path) -> None:
    native.write(SMALL, random_bilm().state_dict(), tmp_path)
    assert find(tmp_path).read_output is None and find(tmp_path).vocabulary is None
    output = {"weight": torch.ones(5, 8), "bias": torch.zeros(5)}
    safetensors.torch.save_file(output, tmp_path / native.OUTPUT_LAYER)
    (tmp_path / native.VOCABULARY).write_text("<S>\n</S>\n<UNK>\na\nb\n")
    source = find(tmp_path)
    assert source.vocabulary == tmp_path / native.VOCABULARY
    assert source.read_output is not None
    assert torch.equal(source.read_output()["weight"], output["weight"])
