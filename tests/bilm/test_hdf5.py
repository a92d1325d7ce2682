import json
import random
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import hdf5
from spacy_elmo.bilm.formats.hdf5 import MARK, datasets

CONFIGS = {
    "small": SMALL,
    "no highway": replace(SMALL, n_highway=0),
    "cells not projected": replace(SMALL, cell_dim=SMALL.projection_dim),
    "characters not projected": replace(SMALL, filters=((1, 3), (4, 5))),
    "switches": replace(SMALL, activation="tanh", cell_clip=None, skip_connections=False),
}
DATASETS = {dataset.name: dataset for dataset in datasets(SMALL)}


@pytest.fixture
def options(tmp_path) -> Path:
    return tmp_path / "options.json"


@pytest.fixture
def weights(tmp_path, options) -> Path:
    """The weights of a biLM, to be damaged, beside their options."""
    hdf5.write(SMALL, random_bilm().state_dict(), options, tmp_path / "weights.hdf5")
    return tmp_path / "weights.hdf5"


def contents(path: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def replace_dataset(path: Path, name: str, value: np.ndarray | None) -> None:
    with h5py.File(path, "a") as file:
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value


def refusal(options: Path, weights: Path) -> str:
    """The error, which `inspect` gives as well as `read`."""
    with pytest.raises(BiLMError) as inspected:
        hdf5.inspect(options, weights)
    with pytest.raises(BiLMError) as read:
        hdf5.read(options, weights)
    assert str(read.value) == str(inspected.value)
    return str(read.value)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_what_is_written_is_read_back_bit_for_bit(tmp_path, config):
    tensors = random_bilm(config).state_dict()
    files = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    hdf5.write(config, tensors, *files)
    read_config, read = hdf5.read(*files)
    assert read_config == config == hdf5.inspect(*files)
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[key], tensors[key]) for key in tensors)


def test_reading_and_writing_the_reference_file_gives_the_same_file(reference, tmp_path):
    original = reference / "lm_weights.hdf5"
    files = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    hdf5.write(*hdf5.read(reference / "options.json", original), *files)
    stored, written = contents(original), contents(files[1])
    assert written.keys() == stored.keys()
    for name in stored:
        assert written[name].dtype == stored[name].dtype == np.float32
        assert written[name].shape == stored[name].shape
        assert written[name].tobytes() == stored[name].tobytes()
    expected = json.loads((reference / "options.json").read_text())
    assert json.loads(files[0].read_text()) == expected


def test_tensors_of_half_precision_are_written_as_float32(options, tmp_path):
    tensors = {key: tensor.half() for key, tensor in random_bilm().state_dict().items()}
    hdf5.write(SMALL, tensors, options, tmp_path / "half.hdf5")
    _, read = hdf5.read(options, tmp_path / "half.hdf5")
    assert all(torch.equal(read[key], tensors[key].float()) for key in tensors)


@pytest.mark.parametrize("name", DATASETS)
def test_a_missing_dataset_is_named(options, weights, name):
    replace_dataset(weights, name, None)
    expected = f"{weights} lacks the dataset '{name}', expected with shape {DATASETS[name].shape}"
    message = refusal(options, weights)
    assert message.startswith(f"{expected} according to {options}")
    assert message.endswith(f"{hdf5.REMEDY}.")


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_of_another_shape_is_named(options, weights, name):
    first, *rest = DATASETS[name].shape
    replace_dataset(weights, name, np.zeros((first + 2, *rest), np.float32))
    message = refusal(options, weights)
    assert message.startswith(f"{weights}: the dataset '{name}' has the shape {(first + 2, *rest)}")
    assert f"expected {DATASETS[name].shape} according to {options}" in message


@pytest.mark.parametrize("name", [MARK, "CNN/W_cnn_1", "CNN_proj/W_proj"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", ">f4"])
def test_a_dataset_that_is_not_float32_is_named(options, weights, name, dtype):
    replace_dataset(weights, name, np.zeros(DATASETS[name].shape, dtype))
    message = refusal(options, weights)
    assert f"the dataset '{name}' has the type {np.dtype(dtype)}, expected float32" in message


def test_a_dataset_beyond_the_options_is_named(options, weights):
    replace_dataset(weights, "CNN/W_cnn_3", np.zeros(3, np.float32))
    message = refusal(options, weights)
    assert f"{weights} holds the dataset 'CNN/W_cnn_3', expected only those of which" in message
    assert str(options) in message


def test_a_group_where_a_dataset_should_be_is_no_dataset(options, weights):
    replace_dataset(weights, MARK, None)
    with h5py.File(weights, "a") as file:
        file.create_group(MARK)
    assert f"lacks the dataset '{MARK}'" in refusal(options, weights)


@pytest.mark.parametrize("field", ["n_layers", "dim", "projection_dim"])
def test_options_of_another_model_are_refused(options, weights, field):
    parsed = json.loads(options.read_text())
    parsed["lstm"][field] -= 1
    options.write_text(json.dumps(parsed))
    assert hdf5.REMEDY in refusal(options, weights)


@pytest.mark.parametrize("name", ["CNN/b_cnn_0", "CNN_proj/b_proj"])
def test_nothing_is_loaded_before_everything_is_checked(options, weights, name, monkeypatch):
    replace_dataset(weights, name, None)
    monkeypatch.setattr(hdf5, "_load", lambda *args: pytest.fail("loaded"))
    refusal(options, weights)


def test_a_table_of_262_rows_is_read_without_its_mask_row(options, weights):
    table = np.random.default_rng(0).normal(size=(261, SMALL.char_dim)).astype("float32")
    replace_dataset(weights, MARK, np.concatenate([np.zeros_like(table[:1]), table]))
    config, tensors = hdf5.read(options, weights)
    assert config.n_characters == 261
    np.testing.assert_array_equal(tensors["token_encoder.embedding.weight"].numpy(), table)


def test_a_table_of_262_rows_whose_first_is_not_zero_is_refused(options, weights):
    replace_dataset(weights, MARK, np.ones((262, SMALL.char_dim), np.float32))
    with pytest.raises(BiLMError, match=rf"{weights}: 'char_embed' has 262 rows and its first is"):
        hdf5.read(options, weights)


@pytest.mark.parametrize("n_characters", [261, 262])
@pytest.mark.parametrize("rows", [261, 262])
def test_tensors_tell_the_count_of_characters_whatever_the_options_say(
    options, weights, n_characters, rows
):
    parsed = json.loads(options.read_text())
    parsed["char_cnn"]["n_characters"] = n_characters
    options.write_text(json.dumps(parsed))
    table = np.zeros((rows, SMALL.char_dim), np.float32)
    table[-1] = 7
    replace_dataset(weights, MARK, table)
    _, tensors = hdf5.read(options, weights)
    embedding = tensors["token_encoder.embedding.weight"]
    assert embedding.shape == (261, SMALL.char_dim) and (embedding[260] == 7).all()


@pytest.mark.parametrize("text", ["", "{", "not JSON", "\ufeff{}"])
def test_options_that_are_not_json_are_named(options, weights, text):
    options.write_text(text, encoding="utf8")
    assert f"{options} is not JSON" in refusal(options, weights)


def test_options_that_are_a_list_are_named(options, weights):
    options.write_text("[]")
    assert f"{options}: the file is [], expected an object" in refusal(options, weights)


def test_options_that_lack_a_field_are_named(options, weights):
    parsed = json.loads(options.read_text())
    del parsed["lstm"]["dim"]
    options.write_text(json.dumps(parsed))
    assert f"{options} lacks the field 'lstm.dim'" in refusal(options, weights)


def test_options_that_do_not_exist_are_named(tmp_path, weights):
    absent = tmp_path / "absent.json"
    assert f"{absent} cannot be read (No such file or directory)" in refusal(absent, weights)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.99])
def test_a_truncated_file_is_named(options, weights, share):
    stored = weights.read_bytes()
    weights.write_bytes(stored[: int(share * len(stored))])
    message = refusal(options, weights)
    assert message.startswith(f"{weights} cannot be read as HDF5")
    assert message.endswith("fetch it again.")


def test_a_file_damaged_anywhere_is_read_or_refused_in_one_sentence(options, weights):
    stored, rng, messages = weights.read_bytes(), random.Random(0), []
    for _ in range(200):
        damaged = bytearray(stored)
        for at in rng.choices(range(len(damaged)), k=8):
            damaged[at] = rng.randrange(256)
        weights.write_bytes(damaged)
        assert hdf5.is_weights(weights) in (True, False)
        try:
            hdf5.read(options, weights)
        except BiLMError as error:
            messages.append(str(error))
    assert 0 < len(messages) < 200
    assert all(message.startswith(str(weights)) for message in messages)


def test_what_is_not_a_bilm_is_not_taken_for_weights(weights, tmp_path):
    assert hdf5.is_weights(weights)
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["embedding"] = np.zeros(3)
    (tmp_path / "text.hdf5").write_text("hello")
    assert not hdf5.is_weights(tmp_path / "other.hdf5")
    assert not hdf5.is_weights(tmp_path / "text.hdf5")


def test_a_failed_write_leaves_the_old_files(options, weights):
    before = options.read_bytes(), weights.read_bytes()
    tensors = random_bilm(seed=1).state_dict()
    del tensors["backward_lm.layers.1.bias"]
    with pytest.raises(KeyError):
        hdf5.write(SMALL, tensors, options, weights)
    assert (options.read_bytes(), weights.read_bytes()) == before
    assert sorted(weights.parent.iterdir()) == [options, weights]
