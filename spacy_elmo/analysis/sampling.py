"""What `analyze geometry` measures of a corpus: words, contexts and sentences drawn at random.

The corpus is read twice. The first time counts in how many sentences each word stands; then all that is
wanted is drawn by number ("sentences 3, 17 and 40 of those with 'play'"), so that the second reading
keeps those vectors and no others: memory is set by the sample, plus one count a word type.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from spacy.tokens import Doc, Span

from ..spans import SentenceSpans


@dataclass
class Census:
    """contexts: In how many sentences each word stands, for words as `sentence_words` gives them."""

    docs: int = 0
    sentences: int = 0
    tokens: int = 0
    contexts: Counter[str] = field(default_factory=Counter)

    def count(self, doc: Doc) -> None:
        self.docs += 1
        for sentence in sentences(doc):
            self.sentences += 1
            self.tokens += len(sentence_tokens(sentence))
            self.contexts.update(sentence_words(sentence).keys())


@dataclass(frozen=True)
class SampleSize:
    """The paper's numbers, with bounds on what it takes whole.

    min_contexts (int): Sentences that a word must stand in. words (int), contexts (int): The most words,
    and contexts of a word, drawn. sentences (int): Sentences drawn for intra-sentence similarity, with a
    word of each for the baselines.
    """

    min_contexts: int = 5
    words: int = 1000
    contexts: int = 50
    sentences: int = 1000

    def __post_init__(self) -> None:
        if self.min_contexts < 2 or self.contexts < self.min_contexts:
            raise ValueError(
                f"min_contexts is {self.min_contexts} and contexts {self.contexts}, "
                "expected 2 <= min_contexts <= contexts."
            )
        if self.words < 1 or self.sentences < 2:
            raise ValueError(
                f"{self.words} words and {self.sentences} sentences are to be drawn, "
                "expected at least 1 and 2."
            )


@dataclass(frozen=True)
class Plan:
    """contexts: Of each word drawn, which of its sentences; sentences: which of all. From 0."""

    contexts: dict[str, frozenset[int]]
    sentences: frozenset[int]


def draw_plan(census: Census, size: SampleSize, rng: np.random.Generator) -> Plan:
    """Draw uniformly, without replacement. Raises ValueError if the corpus is too small to measure."""
    words = sorted(word for word, n in census.contexts.items() if n >= size.min_contexts)
    if not words or census.sentences < 2:
        raise ValueError(
            f"In {census.sentences:,} sentences no word stands in {size.min_contexts} of them, expected "
            "a longer text (or fewer --min-contexts)."
        )
    drawn = _draw(len(words), size.words, rng)
    contexts = {
        words[i]: frozenset(_draw(census.contexts[words[i]], size.contexts, rng)) for i in drawn
    }
    return Plan(contexts, frozenset(_draw(census.sentences, size.sentences, rng)))


def _draw(n: int, k: int, rng: np.random.Generator) -> list[int]:
    return sorted(rng.choice(n, size=min(n, k), replace=False).tolist())


@dataclass
class Picks:
    """What is wanted of one Doc, by token index.

    words: (word, token, hash of its sentence). sentences: (all tokens of a sentence, one drawn of them).
    """

    words: list[tuple[str, int, int]] = field(default_factory=list)
    sentences: list[tuple[list[int], int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.words or self.sentences)


def pick(docs: Iterable[Doc], plan: Plan, rng: np.random.Generator) -> Iterator[tuple[Doc, Picks]]:
    """The Docs that the plan wants something of, from the corpus that its census counted."""
    seen: Counter[str] = Counter()
    n_sentences = 0
    for doc in docs:
        picks = Picks()
        for sentence in sentences(doc):
            tokens = sentence_tokens(sentence)
            if n_sentences in plan.sentences:
                picks.sentences.append((tokens, int(rng.choice(tokens))))
            n_sentences += 1
            for word, token in sentence_words(sentence).items():
                if seen[word] in plan.contexts.get(word, ()):
                    picks.words.append((word, token, hash(sentence.text)))
                if word in plan.contexts:
                    seen[word] += 1
        if picks:
            yield doc, picks


def sentences(doc: Doc) -> Iterator[Span]:
    """Sentences with words in them: the Doc's own, or by punctuation, whatever a parser says later."""
    for sentence in SentenceSpans()([doc])[0]:
        if any(not token.is_space for token in sentence):
            yield sentence


def sentence_tokens(sentence: Span) -> list[int]:
    """Indices of what is not whitespace."""
    return [token.i for token in sentence if not token.is_space]


def sentence_words(sentence: Span) -> dict[str, int]:
    """Words as they are written, punctuation left out, with the index of the first of each: a sentence is
    one context of a word.
    """
    found: dict[str, int] = {}
    for token in sentence:
        if not token.is_space and not token.is_punct:
            found.setdefault(token.text, token.i)
    return found
