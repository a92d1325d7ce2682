"""Senses by nearest neighbour, against a plain count and plain cosines."""

import json
from pathlib import Path

import numpy as np
import pytest
from spacy.cli import app
from spacy.language import Language
from typer.testing import CliRunner, Result

pytest.importorskip("scipy")

import spacy_elmo.cli  # noqa: F401
from spacy_elmo.analysis.corpus import CorpusError
from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.sense_corpus import draw_sentences, read_senses
from spacy_elmo.analysis.sense_mix import learn_sense_mix
from spacy_elmo.analysis.senses import Inventory, evaluate_senses, learn_senses

RNG = np.random.default_rng(0)
PLAY = ("play", "NOUN")


def planted(n: int = 200, known_at: int = 2) -> Inventory:
    """A word of two senses; one of three layers tells them apart, but not without mistakes: where an
    even mix is right already, there is nothing to learn.
    """
    rng = np.random.default_rng(0)
    inventory = Inventory()
    for i in range(n):
        sense = "game" if i % 2 else "theatre"
        vectors = rng.normal(size=(3, 8)).astype("f")
        vectors[known_at, 0] += 2 if sense == "game" else -2
        inventory.add(PLAY, sense, vectors)
        inventory.sample.append((PLAY, sense, vectors))
        inventory.instances += 1
    return inventory


def test_nearest_mean_wins() -> None:
    inventory = planted()
    game = np.zeros((3, 8))
    game[2, 0] = 1
    top = np.array([0.0, 0.0, 1.0])
    assert inventory.nearest(PLAY, np.stack([game, -game]), top) == ["game", "theatre"]
    assert inventory.nearest(("go", "VERB"), game[None], top) == [None]


@pytest.mark.parametrize("by_use", [False, True])
def test_nearest_is_that_of_plain_cosines(by_use: bool) -> None:
    """Of the senses' means, or of all uses, in a loop."""
    inventory = Inventory(keep_uses=True)
    used: list[tuple[str, np.ndarray]] = []
    for i in range(60):
        # Halves keep what is stored in half precision exact.
        used.append((f"s{i % 5}", RNG.integers(-9, 9, size=(3, 4)).astype("f") / 2))
        inventory.add(PLAY, *used[-1])
    weights = np.array([0.2, 0.5, 0.3])
    candidates = used
    if not by_use:
        names = [f"s{k}" for k in range(5)]
        candidates = [(n, np.mean([x for s, x in used if s == n], axis=0)) for n in names]
    for _ in range(20):
        x = RNG.normal(size=(3, 4))
        mixed = sum(w * layer for w, layer in zip(weights, x, strict=True))
        best, best_cosine = "", -2.0
        for name, known in candidates:
            other = sum(w * layer for w, layer in zip(weights, known, strict=True))
            cosine = mixed @ other / (np.linalg.norm(mixed) * np.linalg.norm(other))
            if cosine > best_cosine:
                best, best_cosine = name, cosine
        assert inventory.nearest(PLAY, x[None], weights, by_use) == [best]


def test_the_nearest_use_favours_the_frequent_sense() -> None:
    """Of uses drawn alike, means are as good as each other, and the frequent sense has more uses."""
    rng = np.random.default_rng(0)
    inventory = Inventory(keep_uses=True)
    for i in range(100):
        inventory.add(PLAY, "rare" if i % 10 == 0 else "frequent", rng.normal(size=(1, 6)))
    uses = rng.normal(size=(200, 1, 6))
    answers = {
        by_use: inventory.nearest(PLAY, uses, np.ones(1), by_use).count("frequent") / 200
        for by_use in (False, True)
    }
    assert answers[False] < 0.65 and answers[True] > 0.8


def test_most_frequent_sense() -> None:
    inventory = Inventory()
    for sense in ["b", "a", "b", "a", "c"]:
        inventory.add(PLAY, sense, np.ones((1, 2)))
    assert inventory.most_frequent(PLAY) == "a"  # of a and b the first
    assert inventory.most_frequent(("go", "VERB")) is None
    inventory.add(("play", "VERB"), "d", np.ones((1, 2)))
    inventory.add(("play", "VERB"), "d", np.ones((1, 2)))
    inventory.add(("play", "VERB"), "d", np.ones((1, 2)))
    assert inventory.most_frequent(PLAY) == "a"


def test_a_word_not_seen_falls_back_to_its_lemma() -> None:
    inventory = Inventory()
    for word, sense, n in [("NOUN", "a", 2), ("VERB", "b", 3), ("ADJ", "c", 1)]:
        for _ in range(n):
            inventory.add(("play", word), sense, RNG.normal(size=(1, 2)))
    unseen = ("play", "ADV")
    assert inventory.most_frequent(unseen) == "b"
    assert inventory.nearest(unseen, np.ones((1, 1, 2)), np.ones(1)) == ["b"]
    assert inventory.most_frequent(("sing", "VERB")) is None


def test_learned_mix_finds_the_layer_that_knows() -> None:
    for known_at in (0, 1, 2):
        mix = learn_sense_mix(planted(known_at=known_at))
        assert mix.sum() == pytest.approx(1)
        assert mix[known_at] > 0.6


def test_learned_mix_without_examples_is_uniform() -> None:
    inventory = Inventory()
    inventory.add(PLAY, "only", np.ones((3, 2)))
    inventory.sample.append((PLAY, "only", np.ones((3, 2))))
    np.testing.assert_allclose(learn_sense_mix(inventory), 1 / 3)


LINES = [
    {"tokens": ["a", "play"], "senses": [[1, "play", "NOUN", "theatre"]]},
    {"tokens": ["the", "play"], "senses": [[1, "play", "NOUN", "game"]]},
    {"tokens": ["a", "good", "play"], "senses": [[2, "play", "NOUN", "theatre"]]},
    {"tokens": ["they", "go"], "senses": [[1, "go", "VERB", "move"]]},
]
TEST = [
    {"tokens": ["a", "play"], "senses": [[1, "play", "NOUN", "theatre"]]},
    {"tokens": ["to", "go"], "senses": [[1, "go", "VERB", "move"]]},
    {"tokens": ["to", "sing"], "senses": [[1, "sing", "VERB", "sound"]]},
    {"tokens": ["the", "play"], "senses": [[1, "play", "NOUN", "new"]]},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    for name, lines in (("train.jsonl", LINES), ("test.jsonl", TEST)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "train.jsonl", tmp_path / "test.jsonl"


@pytest.mark.parametrize("keep_uses", [False, True])
def test_study_counts(nlp: Language, files: tuple[Path, Path], keep_uses: bool) -> None:
    """Of 4 instances 3 are of words seen, 2 of a word seen with two senses; one sense is new."""
    reader = layer_reader(nlp)
    inventory = learn_senses(reader, read_senses(files[0], nlp), keep_uses=keep_uses)
    study = evaluate_senses(reader, inventory, read_senses(files[1], nlp), learn_sense_mix)
    assert (study.train, study.test, study.seen, study.ambiguous) == (4, 4, 3, 2)
    first = study.rows[0]
    assert (first.name, first.total) == ("most frequent sense", 0.5)
    assert first.seen == pytest.approx(2 / 3) and first.ambiguous == 0.5
    assert len(study.rows) == 1 + 3 + 2
    assert study.rows[2].ambiguous == 0.5  # the same sentence is nearest to itself
    assert study.rows[2].by_use == (0.5 if keep_uses else pytest.approx(np.nan, nan_ok=True))


def test_sample_is_bounded(nlp: Language, files: tuple[Path, Path]) -> None:
    many = [pair for _ in range(20) for pair in read_senses(files[0], nlp)]
    inventory = learn_senses(layer_reader(nlp), many, sample=10)
    assert len(inventory.sample) == 10 and inventory.instances == 80


def test_sentences_are_drawn_evenly(nlp: Language, files: tuple[Path, Path]) -> None:
    def read() -> list:
        return [(doc, [i]) for i in range(200) for doc, _ in read_senses(files[0], nlp)][:200]

    assert len(list(draw_sentences(read, None, 0))) == 200
    drawn = [each for _, (each,) in draw_sentences(read, 225, 0)]
    assert 60 < len(drawn) < 140
    assert drawn != [each for _, (each,) in draw_sentences(read, 225, 1)]


def test_other_files_are_refused(nlp: Language, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"is not a \.jsonl file"):
        next(read_senses(tmp_path / "senses.txt", nlp))
    path = tmp_path / "bad.jsonl"
    for line, error in [
        ('{"tokens": ["a"]}', "KeyError"),
        ('{"tokens": ["a"], "senses": [[1, "a", "X", "s"]]}', "IndexError"),
        ('{"tokens": ["a"], "senses": [[0, "a", "X"]]}', "ValueError"),
    ]:
        path.write_text(line)
        with pytest.raises(CorpusError, match=rf"Line 1 of .* no tokens with senses \({error}"):
            next(read_senses(path, nlp))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", "analyze", "probe", *map(str, arguments)])


def test_sense_command(bilm_dir: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    result = run(bilm_dir, files[0], "--test", files[1], "--task", "sense", "-o", out)
    assert result.exit_code == 0, result.output
    assert "most frequent sense" in result.output
    assert json.loads((out / "probe-sense.json").read_text())["ambiguous"] == 2
    names = {path.name for path in out.iterdir()}
    assert names == {f"probe-sense.{kind}" for kind in ("json", "csv", "svg", "png")}
    assert "by use" not in (out / "probe-sense.csv").read_text()
    run(bilm_dir, files[0], "--test", files[1], "--task", "sense", "--by-use", "-o", out)
    assert "by use" in (out / "probe-sense.csv").read_text()


def test_tag_command(bilm_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = []
    for i in range(30):
        for k, (word, tag) in enumerate(
            [("the", "DT"), (f"dog{i % 7}", "NN"), ("ran", "VB")], start=1
        ):
            lines.append(f"{k}\t{word}\t_\tX\t{tag}\t_\t0\t_\t_\t_")
        lines.append("")
    path = tmp_path / "data.conllu"
    path.write_text("\n".join(lines))
    out = tmp_path / "out"
    result = run(bilm_dir, path, "--test", path, "-o", out, "--max-words", 60)
    assert result.exit_code == 0, result.output
    study = json.loads((out / "probe-tag.json").read_text())
    assert (study["labels"], study["train"]) == (3, 60)
    assert 15 < study["test"] <= 30
    assert study["rows"][0]["accuracy"] > 0.9
    result = run(bilm_dir, path, "--test", path, "--label", "ner")
    assert result.exit_code == 1
    assert "no label 'ner'" in " ".join(result.output.split())
