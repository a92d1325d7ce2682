import random
from collections import Counter

import pytest
import torch

from spacy_elmo.pretraining.ranks import Ranks
from spacy_elmo.pretraining.vocabulary import Vocabulary
from spacy_elmo.pretraining.windows import NO_TARGET, TextWindows

VOCABULARY = Vocabulary(list("abcdefgh"))


def text(seed: int = 0, n: int = 11) -> list[list[list[str]]]:
    draw = random.Random(seed)
    return [
        [[draw.choice("abcdefghz") for _ in range(draw.randint(1, 9))] for _ in range(4)]
        for _ in range(n)
    ]


def read(windows: TextWindows) -> tuple[list[list[tuple]], int]:
    """What each stream reads and predicts: (reset, forward in, target, backward in, target)."""
    streams: list[list[tuple]] = []
    n_words = 0
    for window in windows:
        names = ["<S>", "</S>", *window.words]
        steps, n = window.forward.inputs.shape
        streams = streams or [[] for _ in range(n)]
        n_words += window.n_words
        for step in range(steps):
            reset = window.resets[step]
            for row in range(n):
                position: list = [reset is not None and row in reset.tolist()]
                for side in (window.forward, window.backward):
                    target = int(side.targets[step, row])
                    position.append(names[int(side.inputs[step, row])])
                    position.append(None if target == NO_TARGET else VOCABULARY.words[target])
                if position[2] is not None:
                    streams[row].append(tuple(position))
                else:
                    assert position[4] is None
    return streams, n_words


def known(word: str) -> str:
    return word if word in VOCABULARY else "<UNK>"


def positions(document: list[list[str]], reset: str) -> list[tuple]:
    """In plain lines, what a stream makes of a document."""
    result = []
    for number, sentence in enumerate(document):
        ahead, behind = [*sentence, "</S>"], [*sentence[::-1], "<S>"]
        for i in range(len(sentence) + 1):
            fresh = i == 0 and (reset == "sentence" or (reset == "document" and number == 0))
            before, after = ["<S>", *sentence][i], ["</S>", *sentence[::-1]][i]
            targets = [t if t in ("<S>", "</S>") else known(t) for t in (ahead[i], behind[i])]
            result.append((fresh, before, targets[0], after, targets[1]))
    return result


@pytest.mark.parametrize("reset", ["document", "sentence", "never"])
@pytest.mark.parametrize(("n_streams", "steps"), [(1, 7), (3, 5), (4, 1), (20, 40)])
def test_every_position_once_and_in_order(n_streams: int, steps: int, reset: str) -> None:
    documents = text()
    windows = TextWindows(
        iter(documents), VOCABULARY, n_streams=n_streams, steps=steps, reset=reset
    )
    streams, n_words = read(windows)
    expected = [positions(document, reset) for document in documents]
    assert n_words == sum(len(s) for d in documents for s in d)
    assert Counter(p for stream in streams for p in stream) == Counter(
        p for document in expected for p in document
    )
    # Each stream is whole documents, one after the other.
    left = list(expected)
    for stream in streams:
        while stream:
            match = next(d for d in left if stream[: len(d)] == d)
            left.remove(match)
            stream = stream[len(match) :]
    assert not left


def test_words_are_distinct_and_short_ones_first() -> None:
    documents = [[["ccc", "a", "bb", "a", "z"]]]
    window = next(TextWindows(iter(documents), VOCABULARY, n_streams=1, steps=9, reset="document"))
    assert window.words == ["a", "z", "bb", "ccc"]


def test_goes_on_from_a_state() -> None:
    documents = text(3, 30)
    whole = TextWindows(iter(documents), VOCABULARY, n_streams=3, steps=4, reset="document")
    source = iter(documents)
    first = TextWindows(source, VOCABULARY, n_streams=3, steps=4, reset="document")
    for _ in range(5):
        next(first), next(whole)
    second = TextWindows(source, VOCABULARY, n_streams=3, steps=4, reset="document")
    second.restore(first.state())
    assert read(second) == read(whole)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_the_streams_of_one_process(ranks: int) -> None:
    def windows(mine: slice | None) -> TextWindows:
        return TextWindows(
            iter(text(4, 40)), VOCABULARY, n_streams=6, steps=5, reset="document", mine=mine
        )

    whole, _ = read(windows(None))
    parts = [read(windows(Ranks(rank, ranks).share(6))) for rank in range(ranks)]
    assert [stream for streams, _ in parts for stream in streams] == whole
    assert {n for _, n in parts} == {sum(len(s) for d in text(4, 40) for s in d)}


def test_tensors_are_steps_first() -> None:
    window = next(TextWindows(iter(text()), VOCABULARY, n_streams=3, steps=4, reset="never"))
    assert window.forward.inputs.shape == window.backward.targets.shape == (4, 3)
    assert window.forward.inputs.dtype == torch.int64
    assert window.resets == [None] * 4
