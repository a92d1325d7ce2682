"""`python -m spacy elmo convert` and `info`, on every layout."""

import shutil
import zipfile
from pathlib import Path

import h5py
import pytest
import torch
from references import HERE, assert_vectors, unpack_bilm_tf
from spacy.cli import app
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401  (spaCy finds it by its entry point when run as a program)
from spacy_elmo.bilm import conversion
from spacy_elmo.bilm.formats import native
from spacy_elmo.bilm.loading import find, load_bilm


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", *map(str, arguments)])


def words(result: Result) -> str:
    return " ".join(result.stdout.split())


@pytest.fixture(params=["hdf5", "zip", "native", "checkpoint"])
def published(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same biLM in each layout that has a twin in HDF5."""
    unpack_bilm_tf("published", tmp_path / "hdf5")
    if request.param == "zip":
        with zipfile.ZipFile(tmp_path / "217.zip", "w") as file:
            for path in (tmp_path / "hdf5").iterdir():
                file.write(path, path.name)
        return tmp_path / "217.zip"
    if request.param == "native":
        native.write(*find(tmp_path / "hdf5").read(), tmp_path / "native")
        return tmp_path / "native"
    if request.param == "checkpoint":
        return HERE / "bilm_tf_checkpoint"
    return tmp_path / "hdf5"


@pytest.mark.parametrize("to", ["native", "hdf5"])
def test_convert_keeps_the_vectors(published: Path, tmp_path: Path, to: str) -> None:
    result = run("convert", published, tmp_path / "new", "--to", to)
    assert result.exit_code == 0, result.stdout
    assert "reads back bit for bit" in words(result)
    layers = unpack_bilm_tf("published", tmp_path / "reference")
    assert_vectors(load_bilm(tmp_path / "new"), layers, atol=1e-5)


def test_what_is_converted_to_hdf5_is_the_original_file(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    run("convert", tmp_path / "hdf5", tmp_path / "native")
    run("convert", tmp_path / "native", tmp_path / "back", "--to", "hdf5")
    stored: dict[Path, dict[str, bytes]] = {}
    for path in (tmp_path / "hdf5" / "model.hdf5", tmp_path / "back" / "weights.hdf5"):
        found = stored.setdefault(path, {})
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, found=found: (
                    found.update({name: item[()].tobytes()})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
    first, second = stored.values()
    assert first == second and len(first) > 20


def test_many_langs_becomes_native_but_not_hdf5(tmp_path: Path) -> None:
    place = HERE / "many_langs_published"
    assert run("convert", place, tmp_path / "new").exit_code == 0
    assert find(tmp_path / "new").inspect() == find(place).inspect()
    result = run("convert", place, tmp_path / "other", "--to", "hdf5")
    assert result.exit_code == 1
    assert "Unicode characters has no options.json" in words(result)
    assert not (tmp_path / "other").exists()


def test_the_output_layer_of_a_checkpoint_is_kept(tmp_path: Path) -> None:
    place = HERE / "bilm_tf_checkpoint"
    assert "Kept the output layer of 9 words" in words(run("convert", place, tmp_path / "new"))
    ours, theirs = find(tmp_path / "new"), find(place)
    assert ours.read_output is not None and theirs.read_output is not None
    for key, tensor in theirs.read_output().items():
        assert torch.equal(ours.read_output()[key], tensor)
    assert ours.vocabulary is not None
    assert ours.vocabulary.read_text() == (place / "vocab.txt").read_text()
    assert "Output layer kept" in words(run("info", tmp_path / "new"))
    told = words(run("convert", tmp_path / "new", tmp_path / "third", "--to", "hdf5"))
    assert "The output layer is left out" in told


def test_the_words_of_an_output_layer_may_be_given(tmp_path: Path) -> None:
    place = Path(shutil.copytree(HERE / "bilm_tf_checkpoint", tmp_path / "checkpoint"))
    vocabulary = (place / "vocab.txt").rename(tmp_path / "words.txt")
    assert "give it, so that" in words(run("convert", place, tmp_path / "a"))
    run("convert", place, tmp_path / "b", "--vocab", vocabulary)
    assert (tmp_path / "b" / "vocab.txt").read_text() == vocabulary.read_text()
    vocabulary.write_text("<S>\n</S>\n<UNK>\n")
    result = run("convert", place, tmp_path / "c", "--vocab", vocabulary)
    assert result.exit_code == 1
    assert "words.txt has 3 words, expected 9" in words(result)


def test_options_from_elsewhere(tmp_path: Path) -> None:
    unpack_bilm_tf("tanh_one_highway", tmp_path / "hdf5")
    options = (tmp_path / "hdf5" / "options.json").rename(tmp_path / "sizes.json")
    weights = tmp_path / "hdf5" / "model.hdf5"
    assert run("convert", weights, tmp_path / "new").exit_code == 1
    assert run("convert", weights, tmp_path / "new", "--options", options).exit_code == 0
    assert load_bilm(tmp_path / "new").config.activation == "tanh"


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.json").write_text("mine")
    result = run("convert", tmp_path / "hdf5", tmp_path / "new")
    assert result.exit_code == 1 and "holds config.json already" in words(result)
    assert (tmp_path / "new" / "config.json").read_text() == "mine"
    assert run("convert", tmp_path / "hdf5", tmp_path / "new", "--force").exit_code == 0


def test_what_reads_back_differently_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    target = conversion.TARGETS["native"]

    def read(place: Path):
        config, tensors = target.read(place)
        tensors["forward_lm.layers.0.bias"][0] += 1
        return config, tensors

    monkeypatch.setitem(conversion.TARGETS, "native", target._replace(read=read))
    result = run("convert", tmp_path / "hdf5", tmp_path / "new")
    assert result.exit_code == 1
    assert "'forward_lm.layers.0.bias' reads back with other values" in words(result)


def test_a_target_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    (tmp_path / "file").write_text("")
    result = run("convert", tmp_path / "hdf5", tmp_path / "file" / "new")
    assert result.exit_code == 1 and "cannot be written" in words(result)


@pytest.mark.parametrize("name", sorted(p.name for p in HERE.iterdir() if p.is_dir()))
def test_info_tells_each_layout(name: str) -> None:
    if name == "__pycache__":
        return
    printed = words(run("info", HERE / name))
    assert "is a biLM that loads" in printed
    if name.startswith("many_langs"):
        assert "48 Unicode characters" in printed or "10 Unicode characters" in printed
        assert ("words have vectors of their own, 5 wide" in printed) == (name[11:] != "no_words")
    else:
        assert "options.json + TensorFlow checkpoint" in printed


def test_info_tells_an_archive(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    with zipfile.ZipFile(tmp_path / "217.zip", "w") as file:
        for path in (tmp_path / "hdf5").iterdir():
            file.write(path, path.name)
    told = words(run("info", tmp_path / "217.zip"))
    assert "weights.hdf5, in a zip archive" in told
    assert "is a biLM that loads" not in told and "Not checked names and shapes" in told


def test_info_tells_of_token_vectors(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path)
    assert "Token vectors none" in words(run("info", tmp_path))
    shutil.copy(HERE / "bilm_tf_tokens.hdf5", tmp_path)
    shutil.copy(HERE / "bilm_tf_tokens.txt", tmp_path)
    assert "Token vectors of a vocabulary" in words(run("info", tmp_path))


def test_info_tells_why_a_path_is_refused(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    with h5py.File(tmp_path / "hdf5" / "model.hdf5", "a") as file:
        del file["CNN_proj/b_proj"]
    result = run("info", tmp_path / "hdf5")
    assert result.exit_code == 1 and "is refused" in words(result)
    assert "lacks the dataset 'CNN_proj/b_proj', expected with shape (6,)" in words(result)


def test_info_takes_options_from_elsewhere(tmp_path: Path) -> None:
    unpack_bilm_tf("tanh_one_highway", tmp_path / "hdf5")
    options = (tmp_path / "hdf5" / "options.json").rename(tmp_path / "sizes.json")
    result = run("info", tmp_path / "hdf5" / "model.hdf5", "--options", options)
    assert result.exit_code == 0 and "tanh" in words(result)


def test_the_source_is_not_converted_beside_itself(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    for more in ((), ("--force",)):
        result = run("convert", tmp_path / "hdf5", tmp_path / "hdf5", *more)
        assert result.exit_code == 1 and "holds the source" in words(result)
    assert {path.name for path in (tmp_path / "hdf5").iterdir()} == {"options.json", "model.hdf5"}


def test_info_loads_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack_bilm_tf("published", tmp_path)
    monkeypatch.setattr("spacy_elmo.bilm.formats.hdf5._load", lambda *_: pytest.fail("loaded"))
    assert run("info", tmp_path).exit_code == 0
