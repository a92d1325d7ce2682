"""Layout 2: the NLPL repository's zips, and every other layout in a zip; archives that would harm."""

import gc
import json
import random
import stat
import tempfile
import zipfile
from pathlib import Path

import pytest
import torch
from broken_inputs import make_whole
from conftest import SMALL
from references import HERE, assert_vectors, unpack_bilm_tf

from spacy_elmo.bilm.conversion import convert
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import archive, mapping
from spacy_elmo.bilm.loading import find, load_bilm


def pack(place: Path, target: Path, *, inside: str = "", kind: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(target, "w", kind) as file:
        for path in sorted(place.iterdir()):
            file.write(path, inside + path.name)
    return target


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, to see what stays there."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def nlpl(tmp_path: Path) -> Path:
    """The files of an NLPL archive, unpacked."""
    place = tmp_path / "nlpl"
    unpack_bilm_tf("published", place)
    (place / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    (place / "meta.json").write_text(json.dumps({"id": 217, "algorithm": {"name": "ELMo"}}))
    return place


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("inside", ["", "217/", "a/b/"])
@pytest.mark.parametrize("packed", [True, False])
def test_an_nlpl_archive_gives_bilm_tfs_vectors(
    nlpl: Path, tmp_path: Path, temporary: Path, kind: int, inside: str, packed: bool
) -> None:
    layers = unpack_bilm_tf("published", nlpl)
    path = pack(nlpl, tmp_path / "217.zip", inside=inside, kind=kind) if packed else nlpl
    assert_vectors(load_bilm(path), layers, atol=1e-5)
    gc.collect()
    assert not list(temporary.glob("spacy-elmo-*"))


@pytest.fixture(params=[1, 700, 5000])
def beginning(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How much of a file a sketch of an archive has: nothing, its marks, its headers."""
    monkeypatch.setattr(archive, "BEGINNING", request.param)
    return int(request.param)


@pytest.mark.parametrize("layout", ["hdf5", "native", "checkpoint", "many_langs"])
def test_every_layout_is_told_and_read_however_little_is_seen_of_it(
    tmp_path: Path, temporary: Path, beginning: int, layout: str
) -> None:
    make_whole(tmp_path / "whole")
    place = tmp_path / "whole" / layout
    source = find(pack(place, tmp_path / "217.zip"))
    assert source.layout == f"{find(place).layout}, in a zip archive"
    assert source.inspect() == find(place).inspect()
    config, tensors = source.read()
    expected = find(place).read()
    assert config == expected[0] and tensors.keys() == expected[1].keys()
    assert all(torch.equal(tensors[key], expected[1][key]) for key in tensors)


@pytest.mark.parametrize(
    ("layout", "complete"),
    [("hdf5", False), ("native", True), ("checkpoint", True), ("many_langs", False)],
)
def test_without_reading_only_headers_are_unpacked(
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    complete: bool,
) -> None:
    monkeypatch.setattr(archive, "BEGINNING", 5000)
    make_whole(tmp_path / "whole")
    place = tmp_path / "whole" / layout
    path = pack(place, tmp_path / "217.zip")
    read: list[int] = []
    plain = zipfile.ZipExtFile.read

    def spy(self: zipfile.ZipExtFile, n: int = -1) -> bytes:
        found = plain(self, n)
        read.append(len(found))
        return found

    monkeypatch.setattr(zipfile.ZipExtFile, "read", spy)
    source = find(path)
    source.inspect()
    assert source.complete == complete
    weights = max(file.stat().st_size for file in place.iterdir())
    texts = sum(f.stat().st_size for f in place.iterdir() if f.suffix in archive.TEXTS)
    assert weights > 9000 and sum(read) <= 3 * 5000 + texts


def test_a_checkpoints_output_layer_comes_with_it(
    tmp_path: Path, temporary: Path, beginning: int
) -> None:
    place = HERE / "bilm_tf_checkpoint"
    source = find(pack(place, tmp_path / "checkpoint.zip"))
    convert(source, tmp_path / "new", "native")
    ours, theirs = find(tmp_path / "new"), find(place)
    assert ours.read_output is not None and theirs.read_output is not None
    for key, tensor in theirs.read_output().items():
        assert torch.equal(ours.read_output()[key], tensor)
    assert ours.vocabulary is not None
    assert ours.vocabulary.read_text() == (place / "vocab.txt").read_text()
    del source
    gc.collect()
    assert not list(temporary.glob("spacy-elmo-*"))


@pytest.mark.parametrize("dim", [900, 6])
def test_sizes_tell_that_options_are_of_another_model(
    nlpl: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, dim: int
) -> None:
    options = json.loads((nlpl / "options.json").read_text())
    monkeypatch.setattr(mapping, "ELSE_AT_MOST", 1000)
    options["lstm"]["dim"] = dim
    options["char_cnn"]["filters"] = [[1, dim]]
    (nlpl / "options.json").write_text(json.dumps(options))
    path = pack(nlpl, tmp_path / "217.zip")
    with pytest.raises(BiLMError) as error:
        find(path).inspect()
    assert f"{path}/model.hdf5" in str(error.value) and "expected" in str(error.value)
    assert "they belong to different models" in str(error.value)


def test_our_own_layout_in_an_archive(bilm_dir: Path, tmp_path: Path) -> None:
    source = find(pack(bilm_dir, tmp_path / "ours.zip"))
    assert source.layout == "config.json + weights.safetensors, in a zip archive"
    assert source.files == (tmp_path / "ours.zip",)
    assert source.inspect() == SMALL == load_bilm(tmp_path / "ours.zip").config


def refusal(path: Path, temporary: Path) -> str:
    before = {p for p in path.parent.rglob("*") if temporary not in p.parents}
    with pytest.raises(BiLMError) as error:
        load_bilm(path)
    message = str(error.value)
    del error
    gc.collect()
    assert not list(temporary.glob("spacy-elmo-*"))
    assert {p for p in path.parent.rglob("*") if temporary not in p.parents} == before
    assert str(temporary) not in message and str(path) in message
    return message


def test_errors_name_the_place_in_the_archive(nlpl: Path, tmp_path: Path, temporary: Path) -> None:
    (nlpl / "options.json").write_text("{}")
    path = pack(nlpl, tmp_path / "217.zip")
    assert f"{path}/options.json lacks the field" in refusal(path, temporary)
    (nlpl / "options.json").unlink()
    assert f"{path} has no options for model.hdf5" in refusal(
        pack(nlpl, tmp_path / "217.zip"), temporary
    )


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/evil", "C:\\evil", "..\\evil", "\\evil", "//host/evil"]
)
def test_a_path_that_leaves_the_archive_is_refused(
    nlpl: Path, tmp_path: Path, temporary: Path, name: str
) -> None:
    path = pack(nlpl, tmp_path / "217.zip")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, "evil")
    assert "points outside the archive" in refusal(path, temporary)
    assert not (tmp_path / "evil").exists() and not Path("/evil").exists()


def test_a_link_is_refused(nlpl: Path, tmp_path: Path, temporary: Path) -> None:
    path = pack(nlpl, tmp_path / "217.zip")
    with zipfile.ZipFile(path, "a") as file:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    assert "holds the link 'link'" in refusal(path, temporary)


def test_a_bomb_is_refused_before_it_goes_off(
    nlpl: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "SMALLEST_BOMB", 10**6)
    (nlpl / "model.hdf5").write_bytes(bytes(2 * 10**6))
    path = pack(nlpl, tmp_path / "217.zip")
    monkeypatch.setattr(archive, "_write", lambda *_: pytest.fail("unpacked"))
    assert "which weights never are: it is not safe to unpack" in refusal(path, temporary)


def test_damaged_archives_are_refused(nlpl: Path, tmp_path: Path, temporary: Path) -> None:
    whole = pack(nlpl, tmp_path / "whole.zip").read_bytes()
    path = tmp_path / "217.zip"
    for length in (0, 10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:length])
        refusal(path, temporary)
    chance = random.Random(0)
    for _ in range(20):
        damaged = bytearray(whole)
        for at in chance.sample(range(100, len(whole)), 20):
            damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        refusal(path, temporary)


def test_an_archive_without_a_bilm_is_refused(tmp_path: Path, temporary: Path) -> None:
    path = tmp_path / "42.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model.txt", "word 0.1 0.2")
        file.writestr("model.bin", "x")
    assert f"{path} is not a biLM" in refusal(path, temporary)
