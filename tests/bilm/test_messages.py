"""What a refusal says: the file, the key, what was expected, what was found, and what to do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch

from spacy_elmo.bilm.config import KINDS, OPTION_PATHS, OPTIONAL
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import native
from spacy_elmo.bilm.loading import find, load_bilm

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
OPTIONS, HDF5 = "options.json", "weights.hdf5"
PUBLISHED = "use the options.json that was published with these weights"
SAVED = "use the config.json that was saved with these weights"


class Case(NamedTuple):
    layout: str
    damage: Callable[[Path], object]
    file: str
    key: str
    expected: str
    found: str
    remedy: str


def put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda place: (place / name).write_bytes(content)


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda place: (place / name).write_bytes((place / name).read_bytes()[:size])


def remove(name: str) -> Callable[[Path], object]:
    return lambda place: (place / name).unlink()


def edit(name: str, path: tuple[str, ...], *value: object) -> Callable[[Path], None]:
    """Set a key of a JSON file; without a value remove it."""

    def damage(place: Path) -> None:
        stored = json.loads((place / name).read_text())
        inner = stored
        for key in path[:-1]:
            inner = inner[key]
        if value:
            inner[path[-1]] = value[0]
        else:
            del inner[path[-1]]
        (place / name).write_text(json.dumps(stored))

    return damage


def dataset(name: str, values: np.ndarray | None) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        with h5py.File(place / HDF5, "a") as file:
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values

    return damage


def tensor(name: str, values: torch.Tensor | None) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        stored = safetensors.torch.load((place / native.WEIGHTS).read_bytes())
        changed = {**stored, name: values}
        safetensors.torch.save_file(
            {key: t for key, t in changed.items() if t is not None}, place / native.WEIGHTS
        )

    return damage


FLOATS = np.zeros(7, "f4")
BIAS = "forward_lm.layers.0.bias"
CASES = {
    "no dataset": Case(
        "hdf5",
        dataset("CNN/W_cnn_0", None),
        HDF5,
        "'CNN/W_cnn_0'",
        "(1, 1, 4, 4)",
        "lacks",
        PUBLISHED,
    ),
    "another shape": Case(
        "hdf5", dataset("CNN/b_cnn_0", FLOATS), HDF5, "'CNN/b_cnn_0'", "(4,)", "(7,)", PUBLISHED
    ),
    "another type": Case(
        "hdf5",
        dataset("CNN/b_cnn_0", np.zeros(4, "f2")),
        HDF5,
        "'CNN/b_cnn_0'",
        "float32",
        "float16",
        "convert it to float32",
    ),
    "a dataset too many": Case(
        "hdf5", dataset("softmax", FLOATS), HDF5, "'softmax'", "only those", "holds", PUBLISHED
    ),
    "not finite": Case(
        "hdf5",
        dataset("CNN/b_cnn_0", np.full(4, np.nan, "f4")),
        HDF5,
        "'CNN/b_cnn_0'",
        "finite weights",
        "NaN",
        "use another one",
    ),
    **{
        f"HDF5 of {size} bytes": Case(
            "hdf5", cut(HDF5, size), HDF5, "", "the weights of a biLM", "HDF5", "fetch it again"
        )
        for size in (0, 1, 5, 100, 2000, 20_000)
    },
    "HDF5 of zeros": Case(
        "hdf5",
        put(HDF5, bytes(500)),
        HDF5,
        "",
        "the weights of a biLM",
        "is not HDF5",
        "fetch it again",
    ),
    **{
        f"a pointer of Git LFS for {name}": Case(
            layout, put(name, LFS), name, "", "a biLM's", "Git LFS", "`git lfs pull`"
        )
        for layout, name in [
            ("hdf5", HDF5),
            ("hdf5", OPTIONS),
            ("native", native.CONFIG),
            ("native", native.WEIGHTS),
        ]
    },
    **{
        f"a web page for {name}": Case(
            layout,
            put(name, b"<!DOCTYPE html>"),
            name,
            "",
            "a biLM's file",
            "a web page",
            "fetch the one",
        )
        for layout, name in [("hdf5", HDF5), ("hdf5", OPTIONS), ("native", native.WEIGHTS)]
    },
    "options that are not JSON": Case(
        "hdf5", put(OPTIONS, b"{lstm: 3"), OPTIONS, "", "JSON that", "is not JSON", "fetch it again"
    ),
    "no options": Case(
        "hdf5", remove(OPTIONS), HDF5, "", "one options.json", "found none", "beside them"
    ),
    "options that are a list": Case(
        "hdf5", put(OPTIONS, b"[]"), OPTIONS, "the file", "an object", "is []", PUBLISHED
    ),
    **{
        f"options without {'.'.join(path)}": Case(
            "hdf5",
            edit(OPTIONS, path),
            OPTIONS,
            f"lacks the field '{'.'.join(path)}'",
            kind,
            "found only",
            PUBLISHED,
        )
        for path, kind in [
            (("lstm",), "an object"),
            (("char_cnn", "embedding"), "an object"),
            *((path, KINDS[name]) for name, path in OPTION_PATHS.items() if name not in OPTIONAL),
        ]
    },
    **{
        f"filters {value}": Case(
            "hdf5",
            edit(OPTIONS, ("char_cnn", "filters"), value),
            OPTIONS,
            "char_cnn.filters",
            KINDS["filters"],
            repr(value[0] if value else value),
            PUBLISHED,
        )
        for value in ([[1, "x"]], [[1]], [[1, 0]], [[True, 4]], ["x"], [])
    },
    "filters too wide": Case(
        "hdf5",
        edit(OPTIONS, ("char_cnn", "filters"), [[51, 4]]),
        OPTIONS,
        "char_cnn.filters",
        "a width of at most 50",
        "[51, 4]",
        PUBLISHED,
    ),
    "a wrong activation": Case(
        "hdf5",
        edit(OPTIONS, ("char_cnn", "activation"), "gelu"),
        OPTIONS,
        "char_cnn.activation",
        "'relu' or 'tanh'",
        "'gelu'",
        PUBLISHED,
    ),
    "a size that is no whole number": Case(
        "hdf5",
        edit(OPTIONS, ("lstm", "dim"), 16.5),
        OPTIONS,
        "lstm.dim",
        "a whole number of at least 1",
        "16.5",
        PUBLISHED,
    ),
    "our config without a field": Case(
        "native",
        edit(native.CONFIG, ("cell_dim",)),
        native.CONFIG,
        "lacks the field 'cell_dim'",
        "a whole number of at least 1",
        "found only activation",
        SAVED,
    ),
    "our config with a field too many": Case(
        "native",
        edit(native.CONFIG, ("colour",), 1),
        native.CONFIG,
        "'colour'",
        "only ['activation'",
        "unknown key",
        "upgrade",
    ),
    "a newer layout": Case(
        "native",
        edit(native.CONFIG, ("layout",), "spacy-elmo.bilm.v2"),
        native.CONFIG,
        "layout",
        "'spacy-elmo.bilm.v1'",
        "'spacy-elmo.bilm.v2'",
        "upgrade spacy-elmo",
    ),
    "no tensor": Case(
        "native", tensor(BIAS, None), native.WEIGHTS, f"'{BIAS}'", "(64,)", "lacks", SAVED
    ),
    "a tensor of another shape": Case(
        "native", tensor(BIAS, torch.zeros(3)), native.WEIGHTS, f"'{BIAS}'", "(64,)", "(3,)", SAVED
    ),
    "a tensor too many": Case(
        "native",
        tensor("extra", torch.zeros(3)),
        native.WEIGHTS,
        "'extra'",
        "only those of its config",
        "holds",
        SAVED,
    ),
    **{
        f"safetensors of {size} bytes": Case(
            "native",
            cut(native.WEIGHTS, size),
            native.WEIGHTS,
            "",
            "the weights of a biLM",
            "cannot be read as safetensors",
            "fetch or save it again",
        )
        for size in (0, 5, 200, 2000)
    },
    "no safetensors": Case(
        "native",
        remove(native.WEIGHTS),
        native.WEIGHTS,
        "",
        "the weights of a biLM",
        "No such file",
        "fetch or save it again",
    ),
    "another model": Case(
        "native",
        put(native.CONFIG, b'{"model_type": "bert"}'),
        native.CONFIG,
        "",
        "config.json + weights.safetensors",
        "type 'bert'",
        "or a zip archive of one of these",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_says_file_key_expected_found_and_remedy(
    bilm_dir: Path, hdf5_dir: Path, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    place = tmp_path / "place"
    shutil.copytree({"hdf5": hdf5_dir, "native": bilm_dir}[case.layout], place)
    find(place).inspect()
    case.damage(place)
    with pytest.raises(BiLMError) as error:
        load_bilm(place)
    message = str(error.value)
    assert message.startswith(str(place)) and message.endswith(".") and "\n" not in message
    assert case.file in message
    said = message[message.index(case.file) + len(case.file) :]
    for part in (case.key, case.found, case.remedy):
        assert part in said
    assert "expected " in said and case.expected in said.split("expected ", 1)[1]


@pytest.mark.parametrize("name", [native.CONFIG, native.WEIGHTS])
def test_a_pipeline_that_lost_its_bilm_says_so(bilm_dir: Path, tmp_path: Path, name: str) -> None:
    """`spacy.load` reads the layout without looking for others."""
    shutil.copytree(bilm_dir, tmp_path / "bilm")
    (tmp_path / "bilm" / name).unlink()
    with pytest.raises(BiLMError) as error:
        native.read(tmp_path / "bilm")
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'bilm' / name} cannot be read")
    assert "No such file" in message and "expected" in message
    assert "save again the pipeline" in message or "save it again" in message
