import os
import stat
from pathlib import Path

import pytest
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import hdf5, native
from spacy_elmo.bilm.formats.files import read_json, write_atomically


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_written_in_folders_that_did_not_exist(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, lambda place: place.write_text("text"))
    assert path.read_text() == "text"
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("old", ["old", None])
def test_a_failing_writer_leaves_what_was_there_and_nothing_else(tmp_path, error, old):
    path = tmp_path / "file"
    if old is not None:
        path.write_text(old)

    def write(place: Path) -> None:
        place.write_text("half")
        raise error

    with pytest.raises(error):
        write_atomically(path, write)
    assert [p.read_text() for p in tmp_path.iterdir()] == ([] if old is None else [old])


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    seen = []

    def write(place: Path) -> None:
        place.write_text("new")
        seen.append(path.read_text())

    write_atomically(path, write)
    assert (seen, path.read_text()) == (["old"], "new")


def test_a_file_has_the_mode_that_the_umask_gives(tmp_path, umask):
    write_atomically(tmp_path / "file", lambda place: place.write_text("text"))
    assert mode(tmp_path / "file") == 0o666 & ~umask
    assert os.umask(umask) == umask


def test_files_of_weights_have_the_mode_that_the_umask_gives(tmp_path, umask):
    tensors = random_bilm().state_dict()
    native.write(SMALL, tensors, tmp_path / "native")
    hdf5.write(SMALL, tensors, tmp_path / "h" / "options.json", tmp_path / "h" / "weights.hdf5")
    files = [path for path in tmp_path.glob("*/*") if path.is_file()]
    assert len(files) == 4
    assert {mode(path) for path in files} == {0o666 & ~umask}


def test_json_is_read(tmp_path):
    (tmp_path / "file").write_text('{"ß": [1]}', encoding="utf8")
    assert read_json(tmp_path / "file") == {"ß": [1]}


def test_json_that_cannot_be_read_is_refused_by_name(tmp_path):
    with pytest.raises(BiLMError, match=rf"^{tmp_path} cannot be read \(Is a directory\)"):
        read_json(tmp_path)
    with pytest.raises(BiLMError, match=rf"^{tmp_path}/no cannot be read \(No such file"):
        read_json(tmp_path / "no")


@pytest.mark.parametrize("stored", [b"", b"{]", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused_by_name(tmp_path, stored):
    (tmp_path / "file").write_bytes(stored)
    with pytest.raises(BiLMError, match=rf"^{tmp_path}/file is not JSON"):
        read_json(tmp_path / "file")
