import json
import random
from pathlib import Path

import pytest
import safetensors.torch
import torch
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import native
from spacy_elmo.bilm.loading import build

TENSORS = random_bilm().state_dict()


@pytest.fixture
def place(tmp_path) -> Path:
    """A biLM, to be damaged."""
    native.write(SMALL, TENSORS, tmp_path)
    return tmp_path


def rewrite(place: Path, changes: dict[str, torch.Tensor | None]) -> None:
    tensors = {key: tensor for key, tensor in {**TENSORS, **changes}.items() if tensor is not None}
    safetensors.torch.save_file(tensors, place / "weights.safetensors")


def rewrite_config(place: Path, **changes: object) -> None:
    path = place / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refusal(place: Path) -> str:
    """The error, which `inspect` gives as well as `read`."""
    with pytest.raises(BiLMError) as inspected:
        native.inspect(place)
    with pytest.raises(BiLMError) as read:
        native.read(place)
    assert str(read.value) == str(inspected.value)
    return str(read.value)


def test_what_is_written_is_read_back_bit_for_bit(place):
    config, read = native.read(place)
    assert config == SMALL == native.inspect(place)
    assert read.keys() == TENSORS.keys()
    assert all(torch.equal(read[key], TENSORS[key]) for key in TENSORS)


def test_bytes_give_the_same_bilm():
    bilm = random_bilm()
    config, weights = native.to_bytes(bilm)
    parsed, tensors = native.from_bytes(json.loads(json.dumps(config)), weights)
    assert parsed == bilm.config
    assert all(torch.equal(tensors[key], tensor) for key, tensor in bilm.state_dict().items())


def test_tensors_that_are_views_are_written(place):
    """Of a matrix stored the other way round, and of the half of another."""
    key = "token_encoder.projection.weight"
    turned = {**TENSORS, key: TENSORS[key].t().contiguous().t()}
    native.write(SMALL, turned, place)
    assert torch.equal(native.read(place)[1][key], TENSORS[key])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_come_back_in_float32(place, dtype):
    stored = {key: tensor.to(dtype) for key, tensor in TENSORS.items()}
    native.write(SMALL, stored, place)
    _, tensors = native.read(place)
    _, from_bytes = native.from_bytes(*native.to_bytes(build(SMALL, stored)))
    for key in TENSORS:
        assert tensors[key].dtype == from_bytes[key].dtype == torch.float32
        assert torch.equal(tensors[key], stored[key].float())
        assert torch.equal(from_bytes[key], stored[key].float())


@pytest.mark.parametrize("key", TENSORS)
def test_a_missing_tensor_is_named(place, key):
    rewrite(place, {key: None})
    expected = f"weights.safetensors lacks the tensor '{key}', expected {tuple(TENSORS[key].shape)}"
    assert expected in refusal(place)


@pytest.mark.parametrize("key", TENSORS)
def test_a_tensor_of_another_shape_is_named(place, key):
    first, *rest = TENSORS[key].shape
    rewrite(place, {key: torch.zeros(first + 1, *rest)})
    assert f"the tensor '{key}' has the shape {(first + 1, *rest)}, expected" in refusal(place)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool])
def test_a_tensor_that_is_not_of_floats_is_named(place, dtype):
    key = "token_encoder.projection.bias"
    rewrite(place, {key: TENSORS[key].to(dtype)})
    with pytest.raises(BiLMError, match=rf"the tensor '{key}' has the type {dtype}, expected a"):
        native.read(place)


def test_an_unknown_tensor_is_named(place):
    rewrite(place, {"softmax.weight": torch.zeros(3)})
    assert "weights.safetensors holds the tensor 'softmax.weight', expected only" in refusal(place)


def test_a_config_of_another_bilm_is_refused(place):
    rewrite_config(place, n_layers=3)
    assert "the weights and the config belong to different biLMs" in refusal(place)


def test_an_unknown_key_of_the_config_is_named(place):
    rewrite_config(place, dropout=0.5)
    assert f"{place / 'config.json'} has the unknown key 'dropout'" in refusal(place)


@pytest.mark.parametrize("layout", [None, "spacy-elmo.bilm.v2", 1])
def test_another_layout_is_refused(place, layout):
    rewrite_config(place, layout=layout)
    message = refusal(place)
    assert "config.json does not describe a biLM that this version reads" in message
    assert f"its layout is {layout!r}, expected 'spacy-elmo.bilm.v1'; if a newer" in message


@pytest.mark.parametrize("text", ["[]", '"text"', "3", "null"])
def test_a_config_that_is_no_object_is_refused(place, text):
    (place / "config.json").write_text(text)
    assert "config.json does not describe a biLM" in refusal(place)


@pytest.mark.parametrize("stored", [b"", b"{", b"\xff\xfe"])
def test_a_config_that_is_not_json_is_refused(place, stored):
    (place / "config.json").write_bytes(stored)
    assert f"{place / 'config.json'} is not JSON" in refusal(place)


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_file_that_does_not_exist_is_named(place, name):
    (place / name).unlink()
    assert refusal(place).startswith(f"{place / name} cannot be read")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_named(place, share):
    path = place / "weights.safetensors"
    stored = path.read_bytes()
    path.write_bytes(stored[: int(share * len(stored))])
    assert f"{path} cannot be read as safetensors" in refusal(place)


def test_a_header_damaged_anywhere_is_read_or_refused_in_one_sentence(place):
    path, rng, refused = place / "weights.safetensors", random.Random(0), 0
    stored = path.read_bytes()
    config, _ = native.to_bytes(random_bilm())
    size = 8 + int.from_bytes(stored[:8], "little")
    for _ in range(200):
        damaged = bytearray(stored)
        damaged[rng.randrange(size)] = rng.randrange(256)
        path.write_bytes(damaged)
        readers = [
            lambda: native.read(place),
            lambda d=damaged: native.from_bytes(config, bytes(d)),
        ]
        for read in readers:
            try:
                read()
            except BiLMError:
                refused += 1
    assert 0 < refused < 400


def test_bytes_that_are_not_safetensors_are_refused():
    config, weights = native.to_bytes(random_bilm())
    with pytest.raises(BiLMError, match=r"the serialised biLM cannot be read as safetensors"):
        native.from_bytes(config, weights[:100])
    with pytest.raises(BiLMError, match=r"the serialised biLM does not describe a biLM"):
        native.from_bytes({}, weights)


def test_a_failed_write_leaves_the_old_files(place, monkeypatch):
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def fail(tensors: object, path: Path) -> None:
        path.write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(OSError, match="no space left"):
        native.write(SMALL, random_bilm(seed=1).state_dict(), place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
