"""`python -m spacy elmo download`, against a server on this machine."""

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import Server
from references import HERE, assert_vectors, unpack_bilm_tf
from spacy.cli import app
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401  (spaCy finds it by its entry point when run as a program)
from spacy_elmo.bilm import cache
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import archive
from spacy_elmo.bilm.loading import load_bilm
from spacy_elmo.download import catalogue, fetch, transfer
from spacy_elmo.download.catalogue import CATALOGUE, File, Published


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(transfer, "ATTEMPTS", 1)
    monkeypatch.setattr(transfer, "BLOCK", 500)
    return tmp_path / "cache"


@pytest.fixture
def small(server: Server, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    """A biLM in two files, as AllenNLP publishes them."""
    unpack_bilm_tf("published", tmp_path / "small")
    names = ("options.json", "model.hdf5")
    server.files |= {name: (tmp_path / "small" / name).read_bytes() for name in names}
    files = tuple(File(server.url(name)) for name in names)
    published = replace(CATALOGUE["small"], files=files)
    monkeypatch.setitem(CATALOGUE, "small", published)
    return published


@pytest.fixture
def zipped(server: Server, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A biLM in an archive, as NLPL publishes it."""
    path = tmp_path / "136.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member in (HERE / "many_langs_published").iterdir():
            file.write(member, member.name)
    server.files["136.zip"] = path.read_bytes()
    known = CATALOGUE["many-langs-ar"]
    assert known.files[0].url == "http://vectors.nlpl.eu/repository/11/136.zip"
    published = replace(known, files=(File(server.url("136.zip")),))
    monkeypatch.setitem(CATALOGUE, "many-langs-ar", published)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", "download", *map(str, arguments)])


def words(result: Result) -> str:
    return " ".join(result.stdout.split())


def leftovers(root: Path) -> list[str]:
    """What stands in the cache that is neither a biLM nor a lock."""
    return sorted(
        path.name for path in (root / ".incoming").rglob("*") if not path.name.endswith(".lock")
    )


def test_whole(small: Published, root: Path, tmp_path: Path) -> None:
    layers = unpack_bilm_tf("published", tmp_path / "reference")
    result = run("small")
    assert result.exit_code == 0, result.stdout
    printed = words(result)
    assert f'{root / "small"} is ready: name = "small"' in printed
    assert hashlib.sha256((root / "small" / "model.hdf5").read_bytes()).hexdigest() in printed
    assert "this one is expected from now on" in printed
    assert "Licence: no restrictions" in printed
    assert leftovers(root) == []
    assert_vectors(load_bilm("small"), layers, atol=1e-5)
    assert json.loads((root / "small" / "origin.json").read_text())["name"] == "small"


def test_an_archive_is_unpacked(zipped: Path, root: Path) -> None:
    assert run("many-langs-ar").exit_code == 0
    assert (root / "many-langs-ar" / "encoder.pkl").is_file()
    assert not (root / "many-langs-ar" / "136.zip").exists()
    assert load_bilm("many-langs-ar").config.lexicon is not None


def test_what_is_there_is_not_fetched_again(small: Published, server: Server) -> None:
    run("small")
    server.files.clear()
    result = run("small")
    assert result.exit_code == 0 and "this one is expected" not in words(result)


def test_broken_in_the_middle_and_resumed(small: Published, server: Server, root: Path) -> None:
    size = len(server.files["model.hdf5"])
    server.breaks["model.hdf5"] = [size // 2, size - 100]
    for _ in range(2):
        result = run("small")
        assert result.exit_code == 1
        assert "run the command again, it goes on where it broke" in words(result)
        assert cache.find("small") is None
        with pytest.raises(BiLMError, match="No biLM 'small'"):
            load_bilm("small")
    assert run("small").exit_code == 0
    # At most the block that was under way is fetched twice.
    first, second = (int(asked.strip("bytes=-")) for asked in server.ranges)
    assert size // 2 - 500 < first <= size // 2 and size - 600 < second <= size - 100
    assert (root / "small" / "model.hdf5").read_bytes() == server.files["model.hdf5"]
    assert leftovers(root) == []


def test_broken_and_taken_up_again_at_once(
    small: Published, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "ATTEMPTS", 3)
    server.breaks["model.hdf5"] = [100, 20000]
    assert run("small").exit_code == 0
    assert len(server.ranges) == 1
    assert server.sent["model.hdf5"] < len(server.files["model.hdf5"]) + 1000


@pytest.mark.parametrize("tagged", [True, False])
def test_a_file_that_changed_meanwhile_is_fetched_anew(
    small: Published, server: Server, root: Path, tmp_path: Path, tagged: bool
) -> None:
    server.tagged = tagged
    server.breaks["model.hdf5"] = [1000]
    assert run("small").exit_code == 1
    unpack_bilm_tf("published", tmp_path / "new")
    server.files["model.hdf5"] += b"\0"
    assert run("small").exit_code == 0
    assert (root / "small" / "model.hdf5").read_bytes() == server.files["model.hdf5"]


def test_a_wrong_checksum(
    small: Published, server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, weights = small.files
    wrong = replace(small, files=(options, replace(weights, sha256="0" * 64)))
    monkeypatch.setitem(CATALOGUE, "small", wrong)
    result = run("small")
    found = hashlib.sha256(server.files["model.hdf5"]).hexdigest()
    assert result.exit_code == 1
    assert f"has the checksum {found}, expected {'0' * 64}" in words(result)
    assert cache.find("small") is None
    assert leftovers(root) == ["options.json", "small"]


def test_a_checksum_is_pinned_at_first_use(small: Published, server: Server, root: Path) -> None:
    assert run("small").exit_code == 0
    shutil.rmtree(root / "small")
    assert run("small").exit_code == 0
    shutil.rmtree(root / "small")
    server.files["model.hdf5"] += b"\0"
    result = run("small")
    assert result.exit_code == 1 and "the file was changed or damaged" in words(result)
    assert cache.find("small") is None


def test_404(small: Published, server: Server, root: Path) -> None:
    del server.files["model.hdf5"]
    result = run("small")
    assert result.exit_code == 1
    assert "404" in words(result) and "give it with --from-file" in words(result)
    assert cache.find("small") is None


def test_no_server(small: Published, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = replace(small, files=(File("http://127.0.0.1:9/options.json"),))
    monkeypatch.setitem(CATALOGUE, "small", nowhere)
    result = run("small")
    assert result.exit_code == 1 and "cannot be fetched" in words(result)


def test_no_space_is_seen_beforehand(
    small: Published, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2000))
    result = run("small")
    assert result.exit_code == 1 and "has no space for 0 MB more" in words(result)
    assert cache.find("small") is None and leftovers(root) == ["options.json", "small"]
    monkeypatch.undo()


def test_no_space_in_the_middle_and_resumed(
    small: Published, server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        """A bar that fills up as a disk does."""

        def __init__(self, label: str, there: int, total: int | None) -> None:
            self.there, self.label = there, label

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, n: int) -> None:
            self.there += n
            if self.label == "model.hdf5" and self.there > 9000:
                raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(BiLMError, match="has no space: make room or move the cache"):
        fetch.fetch(small, Full)
    assert cache.find("small") is None and "model.hdf5.part" in leftovers(root)
    assert run("small").exit_code == 0
    assert len(server.ranges) == 1 and leftovers(root) == []


@pytest.mark.parametrize("name", ["options.json", "model.hdf5"])
@pytest.mark.parametrize("content", [b"{}", b"<!doctype html><title>Sign in</title>"])
def test_what_is_no_bilm_is_not_kept(
    small: Published, server: Server, root: Path, name: str, content: bytes
) -> None:
    whole = server.files[name]
    server.files[name] = content
    assert run("small").exit_code == 1
    assert cache.find("small") is None and leftovers(root) == []
    # Nor is it remembered as what to expect.
    server.files[name] = whole
    assert run("small").exit_code == 0


def test_an_archive_that_is_no_bilm_is_not_kept(zipped: Path, server: Server, root: Path) -> None:
    whole = server.files["136.zip"]
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("model.txt", "word 0.1 0.2")
    server.files["136.zip"] = zipped.read_bytes()
    result = run("many-langs-ar")
    assert result.exit_code == 1 and "is not a biLM" in words(result)
    assert cache.find("many-langs-ar") is None and leftovers(root) == []
    server.files["136.zip"] = whole
    assert run("many-langs-ar").exit_code == 0


def test_no_space_to_unpack_and_resumed(
    zipped: Path, server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(archive, "_write", full)
        result = run("many-langs-ar")
    assert result.exit_code == 1 and "has no space: make room or move" in words(result)
    assert cache.find("many-langs-ar") is None
    sent = server.sent["136.zip"]
    assert run("many-langs-ar").exit_code == 0
    assert server.sent["136.zip"] == sent and leftovers(root) == []


def test_an_archive_that_would_harm_is_not_unpacked(
    zipped: Path, server: Server, root: Path
) -> None:
    with zipfile.ZipFile(zipped, "a") as file:
        file.writestr("../../evil", "evil")
    server.files["136.zip"] = zipped.read_bytes()
    result = run("many-langs-ar")
    assert result.exit_code == 1 and "points outside the archive" in words(result)
    assert not list(root.rglob("evil")) and not list(root.parent.glob("evil"))


class Quiet:
    """A bar that shows nothing, slowly, so that transfers overlap."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> "Quiet":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, n: int) -> None:
        time.sleep(0.002)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_processes_at_once(small: Published, server: Server, root: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=fetch.fetch, args=(small, Quiet)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert server.sent["model.hdf5"] == len(server.files["model.hdf5"])
    assert leftovers(root) == []
    load_bilm("small")


@pytest.mark.parametrize("given", ["directory", "weights", "archive"])
def test_from_a_file_without_a_network(
    small: Published, server: Server, root: Path, tmp_path: Path, given: str
) -> None:
    server.files.clear()
    place = tmp_path / "small"
    path = {"directory": place, "weights": place / "model.hdf5"}.get(given)
    if path is None:
        path = tmp_path / "217.zip"
        with zipfile.ZipFile(path, "w") as file:
            for member in place.iterdir():
                file.write(member, f"217/{member.name}")
    result = run("small", "--from-file", path)
    assert result.exit_code == 0, result.stdout
    assert load_bilm("small").config.n_highway == 2
    assert sorted(p.name for p in (root / "small").iterdir()) == [
        "model.hdf5",
        "options.json",
        "origin.json",
    ]
    assert place.is_dir() and path.exists()
    result = run("small", "--from-file", path)
    assert result.exit_code == 1 and "'small' is there already" in words(result)


def test_from_a_file_that_is_another_one(
    small: Published, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tuple(replace(file, sha256="0" * 64) for file in small.files)
    monkeypatch.setitem(CATALOGUE, "small", replace(small, files=files))
    result = run("small", "--from-file", tmp_path / "small")
    assert result.exit_code == 1
    assert "it is not the file that was published as 'small'" in words(result)
    result = run("small", "--from-file", tmp_path / "none")
    assert result.exit_code == 1 and "No biLM" in words(result)


def test_list_shows_what_is_published_and_what_is_here(small: Published, root: Path) -> None:
    run("small")
    printed = run("--list").stdout
    for name in ("original-5.5b", "portuguese", "nlpl-217", "many-langs-zh"):
        assert name in printed
    assert "not stated" in printed and str(root) in "".join(printed.split("\n"))
    (line,) = [line for line in printed.splitlines() if line.startswith("small ")]
    assert line.rstrip().endswith("yes") and "54 MB" in line and "no restrictions" in line
    for name, licence in (
        ("nlpl-217", "CC BY 4.0"),
        ("many-langs-de", "MIT"),
        ("pubmed", "not sta"),
    ):
        (line,) = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
        assert licence in line


def test_the_catalogue() -> None:
    many = [name for name in CATALOGUE if name.startswith("many-langs-")]
    assert len(many) == 44
    assert CATALOGUE["many-langs-zh"].files[0].url.endswith("/11/179.zip")
    assert CATALOGUE["many-langs-nl"].files[0].url.endswith("/11/164.zip")
    assert CATALOGUE["many-langs-nb"].files[0].url.endswith("/11/165.zip")
    assert catalogue.get("nlpl-220").files[0].url.endswith("/220.zip")
    assert all(cache.is_name(name) for name in CATALOGUE)
    for published in CATALOGUE.values():
        assert len({file.name for file in published.files}) == len(published.files)


def test_a_name_that_is_not_published_is_refused(root: Path) -> None:
    for name in ("enormous", "nlpl-x", "../small"):
        result = run(name)
        assert result.exit_code == 1 and f"No published biLM '{name}'" in words(result)
    result = run()
    assert result.exit_code == 1 and "--list" in words(result)


def test_a_path_is_preferred_to_a_downloaded_name(
    small: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("small")
    (tmp_path / "here").mkdir()
    unpack_bilm_tf("tanh_one_highway", tmp_path / "here" / "small")
    assert load_bilm("small").config.activation == "relu"
    monkeypatch.chdir(tmp_path / "here")
    assert load_bilm("small").config.activation == "tanh"


@pytest.mark.parametrize("name", ["", ".", "..", ".incoming", "a/b", "a\\b", "/etc"])
def test_what_is_no_name_is_not_looked_up(root: Path, name: str) -> None:
    (root / ".incoming").mkdir(parents=True)
    assert cache.find(name) is None


def test_the_cache_is_the_users_unless_it_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    assert cache.directory().name == "spacy-elmo"
    monkeypatch.setenv(cache.VARIABLE, "~/elsewhere")
    assert cache.directory() == Path.home() / "elsewhere"
