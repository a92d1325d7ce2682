"""Neighbours, against a plain search over all tokens."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.cli import app
from spacy.language import Language
from spacy.tokens import Doc
from typer.testing import CliRunner, Result

pytest.importorskip("faiss")

import spacy_elmo.cli  # noqa: F401
from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.neighbours import UseIndex, find_neighbours, weights_of
from spacy_elmo.analysis.neighbours_html import highlight, to_html
from spacy_elmo.analysis.static_types import TypeTable, nearest_vectors

TEXTS = [
    "They play in the garden .",
    "The play was long . We saw a good play .",
    "She plays well .",
    "They play in the garden .",
    "Dogs run and play <here> .",
]


def docs(nlp: Language) -> Iterator[Doc]:
    return (nlp.make_doc(text) for text in TEXTS)


def sentences(nlp: Language) -> list[tuple[str, list[str], np.ndarray]]:
    """Text, words and top layer of each sentence, split by hand."""
    found = []
    for doc in docs(nlp):
        (layers,) = nlp.get_pipe("elmo").predict([doc])  # type: ignore[attr-defined]
        start = 0
        for token in doc:
            if token.text == ".":
                span = doc[start : token.i + 1]
                found.append((span.text, [t.text for t in span], layers[-1, start : token.i + 1]))
                start = token.i + 1
    return found


def test_uses_are_those_of_a_plain_search(nlp: Language) -> None:
    (found,) = find_neighbours(layer_reader(nlp), docs(nlp), ["Play"], k=6, uses=100)
    corpus = sentences(nlp)
    assert found.word == "play"
    assert len(found.uses) == 5
    for use in found.uses:
        i = next(i for i, (text, _, _) in enumerate(corpus) if text == use.use.text)
        query = corpus[i][2][corpus[i][1].index("play")]
        best: dict[str, tuple[float, str]] = {}
        for text, words, vectors in corpus:
            for word, x in zip(words, vectors, strict=True):
                cosine = float(x @ query / (np.linalg.norm(x) * np.linalg.norm(query)))
                if text != use.use.text and cosine > best.get(text, (-2, ""))[0]:
                    best[text] = (cosine, word)
        expected = sorted(((c, w, t) for t, (c, w) in best.items()), reverse=True)
        assert len(use.neighbours) == len(expected)
        for near, (cosine, word, text) in zip(use.neighbours, expected, strict=True):
            assert near.cosine == pytest.approx(cosine, abs=2e-3)  # half precision
            assert (near.use.word, near.use.text) == (word, text)


def test_same_word_only(nlp: Language) -> None:
    found = find_neighbours(layer_reader(nlp), docs(nlp), ["play"], k=9, uses=9, same_word=True)
    for use in found[0].uses:
        assert {near.use.word.lower() for near in use.neighbours} == {"play"}
        assert use.use.text not in {near.use.text for near in use.neighbours}


def test_index_looks_further_past_repeated_sentences() -> None:
    """200 copies of the nearest sentence are one neighbour, and do not hide the next."""
    index = UseIndex(4)
    index.add("query", [(0, 5)], np.array([[1.0, 0, 0, 0]]))
    for _ in range(200):
        index.add("copy", [(0, 4)], np.array([[1.0, 0.1, 0, 0]]))
    index.add("next", [(0, 4)], np.array([[1.0, 0.5, 0, 0]]))
    assert len(index) == 202
    assert [near.use.text for near in index.nearest(0, 2).neighbours] == ["copy", "next"]
    assert [near.use.text for near in index.nearest(0, 9).neighbours] == ["copy", "next"]


def test_layer_names() -> None:
    np.testing.assert_array_equal(weights_of("top", 3), [0, 0, 1])
    np.testing.assert_array_equal(weights_of("token", 3), [1, 0, 0])
    np.testing.assert_array_equal(weights_of("1", 3), [0, 1, 0])
    np.testing.assert_allclose(weights_of("mix", 3), 1 / 3)
    for name in ("3", "last", "-1"):
        with pytest.raises(ValueError, match=f"no layer '{name}', expected 0 to 2"):
            weights_of(name, 3)


def test_static_types() -> None:
    table = TypeTable()
    for word, vector in [("a", [1, 0]), ("b", [1, 0.1]), ("c", [0, 1]), ("d", [1, 0])]:
        for _ in range(1 if word == "d" else 3):
            table.add(word, np.array(vector, dtype="f"))
    assert [word for word, _ in table.nearest("a", 5)] == ["b", "c"]  # d is too rare
    assert table.nearest("a", 1)[0][1] == pytest.approx(1 / np.sqrt(1.01))
    assert table.nearest("unknown", 5) == []


def test_static_vectors_of_a_pipeline() -> None:
    nlp = spacy.blank("en")
    for word, vector in [("play", [1, 0, 0]), ("plays", [1, 0.2, 0]), ("go", [0, 1, 0])]:
        nlp.vocab.set_vector(word, np.array(vector, dtype="f"))
    assert [word for word, _ in nearest_vectors(nlp, "play", 2)] == ["plays", "go"]
    assert nearest_vectors(nlp, "unknown", 2) == []
    assert nearest_vectors(spacy.blank("en"), "play", 2) == []


def test_a_word_that_is_not_there(nlp: Language) -> None:
    with pytest.raises(ValueError, match="'theatre' does not stand in the text"):
        find_neighbours(layer_reader(nlp), docs(nlp), ["play", "theatre"])


def test_html_escapes_and_highlights(nlp: Language) -> None:
    found = find_neighbours(layer_reader(nlp), docs(nlp), ["play"], uses=9)
    page = to_html(found, title="<T>", note="n & m")
    assert "&lt;here&gt;" in page and "<here>" not in page
    assert "<title>&lt;T&gt;</title>" in page and "n &amp; m" in page
    assert highlight(found[0].uses[0].use) == "They <mark>play</mark> in the garden ."


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["elmo", "analyze", "neighbours", *map(str, arguments)])


def test_command(bilm_dir: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS))
    result = run(bilm_dir, text, "--word", "play", "-w", "garden", "-o", tmp_path, "--layer", "mix")
    assert result.exit_code == 0, result.output
    assert "Nearest types (static)" in result.output
    written = json.loads((tmp_path / "neighbours.json").read_text())
    assert [each["word"] for each in written["words"]] == ["play", "garden"]
    first = written["words"][0]["uses"][0]
    start, end = first["at"]
    assert first["sentence"][start:end] == "play"
    assert "<mark>garden</mark>" in (tmp_path / "neighbours.html").read_text()
    result = run(bilm_dir, text, "--word", "play", "--layer", "7")
    assert result.exit_code == 1
    assert "no layer '7'" in " ".join(result.output.split())
