import ast
import json
import pickle
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from conftest import SMALL, Trap, random_bilm

import spacy_elmo
from spacy_elmo.bilm import loading
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import hdf5, native
from spacy_elmo.bilm.loading import build, find, load_bilm

TENSORS = random_bilm().state_dict()
OURS = "config.json + weights.safetensors"
PUBLISHED = "options.json + weights.hdf5"


@pytest.fixture
def copies(tmp_path, bilm_dir, hdf5_dir) -> Path:
    """The same biLM in both layouts, each in a directory of its own."""
    shutil.copytree(bilm_dir, tmp_path / "native")
    shutil.copytree(hdf5_dir, tmp_path / "hdf5")
    return tmp_path


@pytest.mark.parametrize(
    ("place", "layout"),
    [
        ("native", OURS),
        ("native/weights.safetensors", OURS),
        ("hdf5", PUBLISHED),
        ("hdf5/weights.hdf5", PUBLISHED),
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_bilm_is_found_by_its_directory_and_by_its_weights(copies, place, layout, kind):
    source = find(kind(copies / place))
    assert source.layout == layout
    assert [path.name for path in source.files] == layout.split(" + ")
    assert source.inspect() == SMALL
    config, tensors = source.read()
    assert config == SMALL
    assert all(torch.equal(tensors[key], TENSORS[key]) for key in TENSORS)


@pytest.mark.parametrize("place", ["native", "hdf5"])
def test_a_loaded_bilm_is_ready_for_use(copies, place):
    bilm = load_bilm(copies / place)
    assert bilm.config == SMALL and not bilm.training
    assert bilm.device.type == "cpu"
    assert all(torch.equal(t, TENSORS[key]) for key, t in bilm.state_dict().items())


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ("elmo_2x16_options.json", "elmo_2x16_weights.hdf5"),
        ("elmo_2x16_options.json", "model.hdf5"),
        ("options.json", "model.bin"),
        ("options.json", "elmo_2x16_weights.hdf5"),
    ],
)
def test_files_of_other_names_are_found_by_what_they_hold(copies, options, weights):
    place = copies / "hdf5"
    (place / "options.json").rename(place / options)
    (place / "weights.hdf5").rename(place / weights)
    (place / "vocab.txt").write_text("the")
    (place / "inside").mkdir()
    for name in (place, place / weights):
        source = find(name)
        assert source.files == (place / options, place / weights)
        assert source.read()[0] == SMALL


def test_another_hdf5_file_beside_the_weights_is_left_alone(copies):
    with h5py.File(copies / "hdf5" / "vectors.hdf5", "w") as file:
        file["vectors"] = np.zeros(3)
    assert find(copies / "hdf5").files[1].name == "weights.hdf5"


def test_of_several_bilms_in_a_directory_one_must_be_named(copies):
    place = copies / "hdf5"
    shutil.copy(place / "weights.hdf5", place / "more.hdf5")
    expected = rf"{place} holds several biLMs \(more.hdf5, weights.hdf5\): name one of these files"
    with pytest.raises(BiLMError, match=expected):
        find(place)
    assert find(place / "more.hdf5").files == (place / "options.json", place / "more.hdf5")


def test_several_bilms_in_a_directory_have_options_of_their_own(copies):
    place = copies / "hdf5"
    for name in ("small", "large"):
        shutil.copy(place / "weights.hdf5", place / f"{name}_weights.hdf5")
        shutil.copy(place / "options.json", place / f"{name}_options.json")
    assert find(place / "small_weights.hdf5").files[0].name == "small_options.json"
    assert find(place / "weights.hdf5").files[0].name == "options.json"


@pytest.mark.parametrize("names", [[], ["a_options.json", "b_options.json"]])
def test_weights_need_options_beside_them(copies, names):
    place = copies / "hdf5"
    (place / "options.json").unlink()
    for name in names:
        (place / name).write_text("{}")
    with pytest.raises(BiLMError) as error:
        find(place)
    assert f"no options for weights.hdf5 (found {', '.join(names) or 'none'})" in str(error.value)
    assert "expected one options.json" in str(error.value)


def test_a_directory_without_a_bilm_is_refused_with_what_it_holds(tmp_path):
    with pytest.raises(BiLMError, match=r"is not a biLM: expected .*, found nothing"):
        find(tmp_path)
    (tmp_path / "model.ckpt").write_text("")
    with pytest.raises(BiLMError, match=rf"{tmp_path} is not a biLM: .*, found model\.ckpt\."):
        find(tmp_path)


@pytest.mark.parametrize("name", ["options.json", "pytorch_model.bin"])
def test_a_file_that_is_no_weights_is_refused(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(BiLMError, match=rf"{tmp_path / name} is not the weights of a biLM: expect"):
        find(tmp_path / name)


def test_a_transformer_is_refused_by_its_type(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 768}))
    (tmp_path / "weights.safetensors").write_bytes(b"")
    for place in (tmp_path, tmp_path / "weights.safetensors"):
        with pytest.raises(BiLMError, match=r"describes a model of type 'bert', not a biLM"):
            find(place)


@pytest.mark.parametrize("stored", ["{}", "[]", "null"])
def test_another_models_config_is_refused(tmp_path, stored):
    (tmp_path / "config.json").write_text(stored)
    with pytest.raises(BiLMError, match=r"config\.json describes another model, not a biLM"):
        find(tmp_path)


def test_a_pipeline_is_refused_with_the_bilm_inside_it(tmp_path):
    native.write(SMALL, TENSORS, tmp_path / "elmo" / "bilm")
    (tmp_path / "config.cfg").write_text("[nlp]")
    with pytest.raises(BiLMError) as error:
        find(tmp_path)
    assert f"is a pipeline, not a biLM: its biLM is {tmp_path / 'elmo' / 'bilm'}" in str(
        error.value
    )
    assert find(tmp_path / "elmo" / "bilm").inspect() == SMALL


def test_a_name_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "PACKAGED", tmp_path / "none")
    with pytest.raises(BiLMError, match=r"^No biLM 'en_elmo': expected the path of one \(config"):
        find("en_elmo")


@pytest.fixture
def packaged(tmp_path, monkeypatch) -> Path:
    """A folder of packaged models with one in it."""
    native.write(SMALL, TENSORS, tmp_path / "models" / "en_small")
    monkeypatch.setattr(loading, "PACKAGED", tmp_path / "models")
    return tmp_path / "models"


def test_a_packaged_model_is_found_by_its_name(packaged):
    assert find("en_small").files[0] == packaged / "en_small" / "config.json"
    with pytest.raises(BiLMError, match=r"or a packaged model's name \(en_small\)"):
        find("en_large")


def test_a_path_is_not_taken_for_a_name(packaged, copies, monkeypatch):
    monkeypatch.chdir(copies)
    shutil.copytree(copies / "hdf5", copies / "en_small")
    (copies / "native" / "inside").mkdir()
    assert find("en_small").layout == OURS
    assert find("./en_small").layout == PUBLISHED
    monkeypatch.chdir(copies / "native" / "inside")
    assert find("..").files[0].parent == Path("..")


def test_what_is_damaged_is_refused_when_read(copies):
    for name in ("native/weights.safetensors", "hdf5/weights.hdf5"):
        path = copies / name
        path.write_bytes(path.read_bytes()[:-500])
        for place in (path, path.parent):
            with pytest.raises(BiLMError, match=rf"{path} cannot be read as"):
                load_bilm(place)


def test_tensors_are_taken_over_without_a_copy():
    tensors = {key: tensor.clone() for key, tensor in TENSORS.items()}
    bilm = build(SMALL, tensors)
    for key, parameter in bilm.named_parameters():
        assert parameter.data_ptr() == tensors[key].data_ptr()
        assert parameter.requires_grad


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.hdf5", "pytorch_model.bin"])
def test_a_pickle_is_refused_and_not_executed(copies, name):
    trace = copies / "trace"
    stored = pickle.dumps(Trap(trace))
    for place in ("native", "hdf5"):
        path = copies / place / name
        path.write_bytes(stored)
        with pytest.raises(BiLMError):
            load_bilm(path)
    assert not trace.exists()
    pickle.loads(stored)
    assert trace.exists()


def test_the_package_has_nothing_that_unpickles():
    unsafe = []
    for path in Path(spacy_elmo.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if unpickles(node):
                unsafe.append(f"{path.name}:{node.lineno}")
    assert unsafe == []


def unpickles(node: ast.AST) -> bool:
    """Imports of pickle and its kin, torch.load without weights_only=True, numpy's allow_pickle."""
    kin = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in kin for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] in kin
    if not isinstance(node, ast.Call):
        return False
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if ast.unparse(node.func) == "torch.load":
        return options.get("weights_only") != "True"
    return "allow_pickle" in options and options["allow_pickle"] != "False"


@pytest.mark.parametrize(
    ("code", "unsafe"),
    [
        ("import pickle", True),
        ("from cloudpickle import loads", True),
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=False)", True),
        ("torch.load(path, weights_only=True)", False),
        ("np.load(path, allow_pickle=True)", True),
        ("np.load(path)", False),
    ],
)
def test_what_unpickles_is_recognised(code, unsafe):
    assert any(unpickles(node) for node in ast.walk(ast.parse(code))) == unsafe


def test_the_public_name_loads(hdf5_dir):
    assert spacy_elmo.load_bilm is load_bilm
    assert isinstance(spacy_elmo.load_bilm(hdf5_dir), spacy_elmo.BiLM)


def test_both_layouts_hold_the_same(copies, tmp_path):
    """From one to the other and back: converting loses nothing."""
    native.write(*find(copies / "hdf5").read(), tmp_path / "again")
    files = (tmp_path / "third" / "options.json", tmp_path / "third" / "weights.hdf5")
    hdf5.write(*find(tmp_path / "again").read(), *files)
    config, tensors = find(tmp_path / "third").read()
    assert config == SMALL
    assert all(torch.equal(tensors[key], TENSORS[key]) for key in TENSORS)
