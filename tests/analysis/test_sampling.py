"""What is drawn from a corpus: bounded, seeded, uniform, and what it says it is."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo.analysis.sampling import Census, Picks, SampleSize, draw_plan, pick

NLP = spacy.blank("en")
WORDS = [f"w{i}" for i in range(30)]


def corpus(n_docs: int = 60) -> Iterator[Doc]:
    """Docs of two sentences; the same Docs each time."""
    rng = np.random.default_rng(1)
    for _ in range(n_docs):
        words = [*rng.choice(WORDS, size=6), ".", *rng.choice(WORDS, size=4), "."]
        yield Doc(NLP.vocab, words=[str(word) for word in words])


def census(n_docs: int = 60) -> Census:
    counts = Census()
    for doc in corpus(n_docs):
        counts.count(doc)
    return counts


def draw(size: SampleSize, seed: int, n_docs: int = 60) -> list[tuple[Doc, Picks]]:
    rng = np.random.default_rng(seed)
    return list(pick(corpus(n_docs), draw_plan(census(n_docs), size, rng), rng))


def picked_words(drawn: list[tuple[Doc, Picks]]) -> list[str]:
    return [word for _, picks in drawn for word, _, _ in picks.words]


def test_census_counts_sentences_not_occurrences() -> None:
    counts = Census()
    counts.count(Doc(NLP.vocab, words=["a", "a", "b", ".", "a", "!", "\n"]))
    assert counts.contexts == {"a": 2, "b": 1}
    assert (counts.docs, counts.sentences, counts.tokens) == (1, 2, 6)


def test_sample_is_bounded_whatever_the_corpus() -> None:
    size = SampleSize(min_contexts=3, words=5, contexts=4, sentences=7)
    for n_docs in (60, 240):
        drawn = draw(size, 0, n_docs)
        found = Counter(picked_words(drawn))
        assert len(found) == 5
        assert set(found.values()) == {4}
        assert sum(len(picks.sentences) for _, picks in drawn) == 7


def test_sample_is_seeded() -> None:
    size = SampleSize(min_contexts=3, words=5, contexts=4, sentences=7)

    def told(seed: int) -> list[tuple[str, list[str], list[int]]]:
        return [
            (doc.text, [word for word, _, _ in picks.words], [at for _, at in picks.sentences])
            for doc, picks in draw(size, seed)
        ]

    assert told(3) == told(3)
    assert told(3) != told(4)


def test_picks_point_at_their_words() -> None:
    for doc, picks in draw(SampleSize(min_contexts=3, contexts=4, sentences=9), 0):
        for word, token, _ in picks.words:
            assert doc[token].text == word
        for tokens, drawn in picks.sentences:
            assert drawn in tokens
            assert [doc[i].text for i in tokens][-1] == "."


def test_everything_is_drawn_where_there_is_room() -> None:
    counts = census()
    drawn = draw(SampleSize(min_contexts=2, words=1000, contexts=1000, sentences=1000), 0)
    expected = {word: n for word, n in counts.contexts.items() if n >= 2}
    assert Counter(picked_words(drawn)) == expected
    assert sum(len(picks.sentences) for _, picks in drawn) == counts.sentences == 120


def test_contexts_are_drawn_uniformly() -> None:
    """Each of a word's sentences has the same chance, the first and the last as well."""
    counts = Census(docs=1, sentences=20, tokens=20, contexts=Counter({"a": 20}))
    times: Counter[int] = Counter()
    for seed in range(400):
        size = SampleSize(min_contexts=5, contexts=5, sentences=5)
        plan = draw_plan(counts, size, np.random.default_rng(seed))
        times.update(plan.contexts["a"])
        times.update(20 + i for i in plan.sentences)
    assert min(times[i] for i in range(40)) > 60
    assert max(times[i] for i in range(40)) < 140


def test_too_short_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="no word stands in 100 of them"):
        draw_plan(census(), SampleSize(min_contexts=100, contexts=100), np.random.default_rng(0))


@pytest.mark.parametrize(
    "size",
    [{"min_contexts": 1}, {"min_contexts": 9, "contexts": 8}, {"words": 0}, {"sentences": 1}],
)
def test_impossible_sizes_are_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        SampleSize(**size)
