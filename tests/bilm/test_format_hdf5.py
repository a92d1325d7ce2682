"""Layout 1: options.json + weights.hdf5, every published variant, against bilm-tf's own graph."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from references import assert_vectors, bilm_tf_variants, unpack_bilm_tf

from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import hdf5
from spacy_elmo.bilm.loading import load_bilm


@pytest.mark.parametrize("variant", bilm_tf_variants())
def test_vectors_are_bilm_tfs(tmp_path: Path, variant: str) -> None:
    layers = unpack_bilm_tf(variant, tmp_path)
    assert_vectors(load_bilm(tmp_path), layers, atol=1e-5)


@pytest.mark.parametrize("variant", bilm_tf_variants())
def test_files_are_written_as_they_were(tmp_path: Path, variant: str) -> None:
    unpack_bilm_tf(variant, tmp_path)
    first = [tmp_path / "options.json", tmp_path / "model.hdf5"]
    again = [tmp_path / "again.json", tmp_path / "again.hdf5"]
    hdf5.write(*hdf5.read(*first), *again)
    with h5py.File(first[1]) as one, h5py.File(again[1]) as two:
        names: list[str] = []
        one.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        assert len(names) > 10
        for name in names:
            assert one[name][()].tobytes() == two[name][()].tobytes()
    assert json.loads(again[0].read_text()) == json.loads(first[0].read_text())


def enlarge(place: Path, rows: int, n_characters: int, *, mask_row: bool = False) -> None:
    """Give the table more rows than bytes and marks need."""
    with h5py.File(place / "model.hdf5", "a") as file:
        table = file["char_embed"][()]
        del file["char_embed"]
        table = np.pad(table, ((0, rows - len(table)), (0, 0)), "wrap")
        file["char_embed"] = np.pad(table, ((int(mask_row), 0), (0, 0)))
    options = json.loads((place / "options.json").read_text())
    options["char_cnn"]["n_characters"] = n_characters
    (place / "options.json").write_text(json.dumps(options))


@pytest.mark.parametrize("n_characters", [300, 301])
@pytest.mark.parametrize("mask_row", [False, True])
def test_larger_tables_are_read_whole_and_spelled_alike(
    tmp_path: Path, n_characters: int, mask_row: bool
) -> None:
    layers = unpack_bilm_tf("published", tmp_path)
    enlarge(tmp_path, 300, n_characters, mask_row=mask_row)
    bilm = load_bilm(tmp_path)
    assert bilm.config.n_characters == 300
    assert_vectors(bilm, layers, atol=1e-5)
    options, weights = tmp_path / "o.json", tmp_path / "w.bin"
    hdf5.write(bilm.config, bilm.state_dict(), options, weights)
    assert hdf5.read(options, weights)[0] == bilm.config


def test_a_larger_table_that_disagrees_with_the_options_is_refused(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path)
    enlarge(tmp_path, 300, 310)
    with pytest.raises(
        BiLMError, match=r"'char_embed' has the shape \(300, 3\), expected \(309, 3"
    ):
        load_bilm(tmp_path)


def test_two_explicit_paths(tmp_path: Path) -> None:
    layers = unpack_bilm_tf("published", tmp_path / "a")
    (tmp_path / "b").mkdir()
    options = (tmp_path / "a" / "options.json").rename(tmp_path / "b" / "sizes.json")
    bilm = load_bilm(tmp_path / "a" / "model.hdf5", options=options)
    assert_vectors(bilm, layers, atol=1e-5)
    with pytest.raises(BiLMError, match="is not HDF5 weights, the one layout to which options"):
        load_bilm(options, options=options)


@pytest.mark.parametrize("form", ["{o},{w}", "{w},{o}", "{o}, {w}", " {w} , {o} "])
@pytest.mark.parametrize("names", [("sizes.json", "model.bin"), ("a,b.json", "c,d.hdf5")])
def test_two_paths_as_one_name(tmp_path: Path, form: str, names: tuple[str, str]) -> None:
    layers = unpack_bilm_tf("published", tmp_path / "a,z")
    (tmp_path / "b").mkdir()
    options = (tmp_path / "a,z" / "options.json").rename(tmp_path / "b" / names[0])
    weights = (tmp_path / "a,z" / "model.hdf5").rename(tmp_path / "a,z" / names[1])
    bilm = load_bilm(form.format(o=options, w=weights))
    assert_vectors(bilm, layers, atol=1e-5)


def test_a_comma_in_the_path_of_one_is_only_a_comma(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "a,b")
    assert load_bilm(tmp_path / "a,b").config == load_bilm(tmp_path / "a,b" / "model.hdf5").config


def test_two_paths_that_are_no_bilm_are_refused(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path)
    options, weights = tmp_path / "options.json", tmp_path / "model.hdf5"
    gone = tmp_path / "gone"
    for name in (f"{options},{gone}", f"{gone},{weights}"):
        with pytest.raises(BiLMError, match=rf"^No file '{gone}' of the two of '{name}', expected"):
            load_bilm(name)
    with pytest.raises(BiLMError, match=f"^No biLM '{gone},{gone}': expected the path of one"):
        load_bilm(f"{gone},{gone}")
    with pytest.raises(BiLMError, match=r"is not HDF5 weights, the one layout to which options"):
        load_bilm(f"{options},{options}")
    with pytest.raises(BiLMError, match=r"model\.hdf5 is not text|model\.hdf5 is not JSON"):
        load_bilm(f"{weights},{weights}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    unpack_bilm_tf("published", tmp_path)
    with h5py.File(tmp_path / "model.hdf5", "a") as file:
        file["CNN_proj/W_proj"][1, 1] = value
    with pytest.raises(BiLMError, match=r"model\.hdf5: 'CNN_proj/W_proj' holds NaN or infinite"):
        load_bilm(tmp_path)


def test_a_sum_beyond_float32_is_not_taken_for_damage(tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path)
    with h5py.File(tmp_path / "model.hdf5", "a") as file:
        file["CNN_proj/b_proj"][...] = 3e38
    load_bilm(tmp_path)
