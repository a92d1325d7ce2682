"""What is not a biLM, is damaged or would harm: refused in one sentence; nothing is executed, and
nothing is written but what was asked for.
"""

import gc
import re
import tempfile
from pathlib import Path

import pytest
from broken_inputs import CORPUS, INDEX, make_whole

from spacy_elmo.bilm.conversion import convert
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.loading import find, load_bilm


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_whole(tmp_path / "place")
    return tmp_path / "place"


# What a sentence says besides the path, where that is not plain from the tests of each layout.
SAID = {
    "two layouts in a directory": "holds several biLMs (weights.safetensors, model.hdf5): name one",
    "a model of allennlp": "a model of type 'crf_tagger', not a biLM, but its ELMo is w.hdf5, name",
    "a transformer": "describes a model of type 'bert', not a biLM",
    "a tar archive": "is a tar archive, which is not read: unpack it",
    "a saved model": "is a SavedModel of TensorFlow, a program and not weights",
    "a pointer of git lfs": "is what Git LFS leaves in place of a file",
    "a web page": "is a web page, expected a biLM's file",
    "token vectors alone": "holds the token vectors of a vocabulary, not a biLM",
    "a bilm of whole words": "reads whole words, not their characters, which is not supported",
    "217.zip cut at 0%": "217.zip is empty, damaged or cut short: fetch it again",
    "217.zip cut at 50%": "217.zip is empty, damaged or cut short: fetch it again",
    "hdf5/model.hdf5 cut at 0%": "model.hdf5 is not HDF5, expected the weights of a biLM",
    f"checkpoint/{INDEX} cut at 50%": f"{INDEX} is empty, damaged or cut short: fetch it again",
    "hdf5 that links to another file": "lacks the dataset",
    "pkl with code": "or holds code, of which none was executed",
    "older pkl with code": "or holds code, of which none was executed",
    "plain pickle with code": "or holds code, of which none was executed",
    "pickle with code in a zip": "or holds code, of which none was executed",
    "zip bomb": "which weights never are: it is not safe to unpack",
    "zip bomb of small members": "which weights never are: it is not safe to unpack",
    "zip in a zip": "outer.zip/217.zip is a zip archive: unpack what holds it, then name it",
    "zip that is encrypted": "encrypted",
}


def tree(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 30 and SAID.keys() <= CORPUS.keys()


def test_what_is_not_broken_loads(place: Path) -> None:
    for name in ("hdf5", "native", "checkpoint", "many_langs", "217.zip"):
        load_bilm(place / name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1",
            "is what Git LFS leaves in place of a file",
        ),
        (b"\n<!DOCTYPE html><title>Sign in</title>", "is a web page, expected a biLM's file"),
        (b"<HTML>", "is a web page, expected a biLM's file"),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "hdf5/model.hdf5",
        "hdf5/options.json",
        "native/weights.safetensors",
        "native/config.json",
        f"checkpoint/{INDEX}",
        "checkpoint/options.json",
        *(f"many_langs/{name}" for name in ("config.json", "sizes.json", "char.dic", "word.dic")),
        *(f"many_langs/{name}" for name in ("encoder.pkl", "token_embedder.pkl")),
        "217.zip",
    ],
)
def test_what_a_host_left_in_place_of_a_file_is_named(
    place: Path, name: str, content: bytes, said: str
) -> None:
    path = place / name
    path.write_bytes(content)
    with pytest.raises(BiLMError) as error:
        load_bilm(path if path.parent == place else path.parent)
    assert str(error.value).startswith(f"{path} {said}")


@pytest.mark.parametrize("name", CORPUS)
def test_it_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = CORPUS[name](place)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = tree(tmp_path)
    messages = set()
    for use in (load_bilm, lambda path: convert(find(path), tmp_path / "new", "native")):
        with pytest.raises(BiLMError) as error:
            use(path)
        messages.add(str(error.value))
        del error
        gc.collect()
        assert tree(tmp_path) == before
    (message,) = messages
    assert str(path) in message and str(tmp_path / "temporary") not in message
    # One sentence: one line, and no full stop but the last.
    assert message.endswith(".") and not re.search(r"\n|\.\s", message), message
    assert SAID.get(name, "") in message
