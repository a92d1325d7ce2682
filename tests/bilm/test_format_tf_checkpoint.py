"""Layout 4: a TensorFlow 1 checkpoint of bilm-tf, read without TensorFlow."""

import json
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from references import HERE, assert_vectors, unpack_bilm_tf

from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import sstable, tensor_bundle, tf_checkpoint
from spacy_elmo.bilm.formats.tensor_bundle import open_bundle
from spacy_elmo.bilm.loading import find, load_bilm

INDEX = "model.ckpt-7.index"
DATA = "model.ckpt-7.data-00000-of-00001"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "bilm_tf_checkpoint", tmp_path / "checkpoint"))


@pytest.mark.parametrize("name", ["", INDEX, DATA, "model.ckpt-7"])
def test_vectors_are_bilm_tfs(place: Path, tmp_path: Path, name: str) -> None:
    layers = unpack_bilm_tf("published", tmp_path / "hdf5")
    assert_vectors(load_bilm(place / name), layers, atol=1e-5)


def test_weights_are_those_that_bilm_tf_dumped(place: Path, tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    ours, theirs = load_bilm(place).state_dict(), load_bilm(tmp_path / "hdf5").state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_the_softmax_layer_comes_with_it(place: Path) -> None:
    source = find(place)
    assert source.layout == tf_checkpoint.LAYOUT
    assert [path.name for path in source.files] == ["options.json", INDEX, DATA]
    assert source.vocabulary == place / "vocab.txt"
    assert source.read_output is not None
    output = source.read_output()
    assert output["weight"].shape == (9, 6) and output["bias"].shape == (9,)
    # The generator's random weights, not the optimizer's slots, which are all about one.
    assert output["weight"].std() > 0.3
    raw = np.fromfile(place / DATA, "<f4")
    flat = output["weight"].numpy().ravel()
    assert any(np.array_equal(raw[i : i + flat.size], flat) for i in range(raw.size - flat.size))


@pytest.mark.parametrize("leaf", [0, 1])
def test_older_names_are_known(leaf: int) -> None:
    name = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"
    known = list(tf_checkpoint.spellings(name, 1))
    assert f"lm/{name}" in known and name in known
    part = tf_checkpoint.PARTS["W_P_0"][leaf]
    assert f"lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/{part}" in known
    assert f"lm/RNN_1/rnn/lstm_cell/{part}" in known
    assert f"RNN_1/rnn/lstm_cell/{part}" not in tf_checkpoint.spellings(name, 2)


def test_of_several_checkpoints_the_latest_is_taken(place: Path) -> None:
    for old in (INDEX, DATA):
        shutil.copy(place / old, place / old.replace("-7", "-3"))
    assert find(place).files[1] == place / INDEX
    assert find(place / "model.ckpt-3").files[1].name == INDEX.replace("-7", "-3")
    (place / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
    assert find(place).files[1].name == INDEX.replace("-7", "-3")
    (place / "checkpoint").unlink()
    with pytest.raises(BiLMError, match=r"holds several checkpoints .* name one of these files"):
        find(place)


def test_weights_that_were_dumped_beside_a_checkpoint_go_first(place: Path) -> None:
    unpack_bilm_tf("published", place)
    assert find(place).files[1] == place / "model.hdf5"
    assert find(place / "model.ckpt-7").files[1] == place / INDEX


def refusal(place: Path) -> str:
    with pytest.raises(BiLMError) as error:
        find(place).inspect()
    message = str(error.value)
    assert str(place) in message and message.endswith(".") and "\n" not in message
    with pytest.raises(BiLMError, match=re.escape(message)):
        load_bilm(place)
    return message


def change_options(place: Path, section: str, key: str, value: object) -> None:
    options = json.loads((place / "options.json").read_text())
    options[section][key] = value
    (place / "options.json").write_text(json.dumps(options))


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("lstm", "dim", 10, "has the shape (12, 36), expected (12, 40)"),
        ("lstm", "n_layers", 3, "lacks the tensor 'lm/RNN_0/rnn/multi_rnn_cell/cell_2"),
        ("lstm", "n_layers", 1, "of which"),
        ("char_cnn", "n_highway", 1, "holds the tensor 'lm/CNN_high_1/W_carry', of which"),
        ("char_cnn", "n_highway", 3, "lacks the tensor 'lm/CNN_high_2/W_transform'"),
        ("char_cnn", "filters", [[1, 4], [2, 4]], "has the shape (8, 8)"),
    ],
)
def test_options_of_another_model_are_refused(
    place: Path, section: str, key: str, value: object, said: str
) -> None:
    change_options(place, section, key, value)
    message = refusal(place)
    if key != "filters":
        assert said in message
    assert "different models" in message


def test_missing_files_are_named(place: Path) -> None:
    (place / DATA).rename(place / "data")
    assert f"{place / DATA} is missing" in refusal(place)
    (place / "options.json").unlink()
    with pytest.raises(BiLMError, match=r"has no options\.json for model\.ckpt-7\.index"):
        find(place)


def test_a_cut_file_of_data_is_named(place: Path) -> None:
    whole = (place / DATA).read_bytes()
    for length in (0, 100, len(whole) // 2):
        (place / DATA).write_bytes(whole[:length])
        assert f"{place / DATA} ends before the tensor" in refusal(place)


@pytest.mark.parametrize("bit", [0, 7, 30])
@pytest.mark.parametrize("name", ["lm/CNN_proj/W_proj", "lm/softmax/b", "lm/char_embed"])
def test_a_flipped_bit_of_a_tensor_is_noticed(place: Path, name: str, bit: int) -> None:
    entry = open_bundle(place / "model.ckpt-7").entries[name]
    source = find(place)
    for at in (0, entry.size // 8 * 4, entry.size - 4):
        whole = (place / DATA).read_bytes()
        damaged = bytearray(whole)
        damaged[entry.offset + at + bit // 8] ^= 1 << bit % 8
        (place / DATA).write_bytes(damaged)
        with pytest.raises(BiLMError) as error:
            source.read_output() if "softmax" in name else load_bilm(place)
        message = str(error.value)
        assert f"{place / DATA}: the tensor '{name}' has the checksum " in message
        assert message.endswith("the checkpoint is damaged or incomplete, fetch it again.")
        (place / DATA).write_bytes(whole)
    load_bilm(place)


def test_weights_that_are_not_finite_are_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they were saved so, with a checksum that is right."""
    monkeypatch.setattr(tensor_bundle, "masked", lambda crc: Right())
    entry = open_bundle(place / "model.ckpt-7").entries["lm/CNN_proj/W_proj"]
    with (place / DATA).open("r+b") as file:
        file.seek(entry.offset + 8)
        file.write(np.float32(np.nan).tobytes())
    with pytest.raises(BiLMError, match=r"'lm/CNN_proj/W_proj' holds NaN or infinite values"):
        load_bilm(place)


def test_every_damage_of_the_index_is_noticed(place: Path) -> None:
    whole = (place / INDEX).read_bytes()
    chance = random.Random(0)
    for at in chance.sample(range(len(whole)), 60):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chance.randrange(8)
        (place / INDEX).write_bytes(damaged)
        try:
            load_bilm(place)
        except BiLMError:
            continue
        # Between the blocks and the footer stand the meta index and padding, which hold nothing.
        assert at >= 2200
    for length in (0, 40, 1000, len(whole) - 1):
        (place / INDEX).write_bytes(whole[:length])
        with pytest.raises(BiLMError):
            load_bilm(place)


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 200, b"\xff" * 40 + bytes.fromhex("57fb808b247547db")]
)
def test_bytes_that_are_no_table(data: bytes) -> None:
    with pytest.raises(sstable.TableError):
        sstable.read_table(data)


class Right:
    """Equal to all."""

    def __ne__(self, other: object) -> bool:
        return False
