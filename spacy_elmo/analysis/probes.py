"""Linear probes: how much of a labelling each layer shows to a linear classifier.

Vectors are frozen; the only thing trained is scikit-learn's logistic regression. A control task
(Hewitt and Liang 2019) gives each word type a random label: what a probe reaches there it does by
memorising types, so selectivity, the task less its control, says what the vectors themselves tell.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import Adam, Model, Softmax, chain, fix_random_seed, to_categorical

from ..extras import require
from ..layers.scalar_mix import ScalarMix, layer_weights
from .representations import Floats, accuracy, representations


@dataclass(frozen=True)
class LabelledVectors:
    """layers: (layers, n, width). words, labels: n of each."""

    layers: Floats
    words: list[str]
    labels: list[str]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class ProbeRow:
    """One representation's result.

    name (str): "layer 0", ..., "uniform mix", "learned mix". accuracy: of the held-out labels, in
    total and on words that the training data has or lacks (NaN where there are none). control: of
    the control task.
    """

    name: str
    accuracy: float
    seen: float
    unseen: float
    control: float
    selectivity: float


@dataclass(frozen=True)
class ProbeStudy:
    """majority (float): Accuracy of the most frequent label; by_word (float): of each word's most
    frequent one, that for words not seen. mix: Weights of the learned mix.
    """

    labels: int
    train: int
    test: int
    majority: float
    by_word: float
    rows: list[ProbeRow]
    mix: Floats


def probe(
    train: LabelledVectors,
    test: LabelledVectors,
    *,
    seed: int = 0,
    strength: float = 0.1,
    watch: Callable[[list[Any]], Iterable[Any]] = iter,
) -> ProbeStudy:
    """Probe every layer, the layers' average, and a mix learned with a linear classifier.

    strength (float): scikit-learn's C, the inverse of L2 regularisation. watch: Wraps the list of
        representations, for a progress bar.
    Raises ValueError if there are fewer than two labels to tell apart.
    """
    if len(set(train.labels)) < 2 or not len(test):
        raise ValueError(
            f"The data has {len(set(train.labels))} different label(s) to train on and {len(test)} words "
            "to test, expected at least 2 labels and some words: is the text annotated with this label?"
        )
    control_train, control_test = control_labels(train, test, seed)
    mix = learn_mix(train, seed)
    known = set(train.words)
    seen = np.array([word in known for word in test.words])
    rows = []
    for name, weights in watch(list(representations(mix).items())):
        X = np.tensordot(weights, train.layers, 1), np.tensordot(weights, test.layers, 1)
        right = _fit_predict(*X, train.labels, strength) == np.array(test.labels)
        control = _fit_predict(*X, control_train, strength) == np.array(control_test)
        rows.append(
            ProbeRow(
                name,
                accuracy(right),
                accuracy(right[seen]),
                accuracy(right[~seen]),
                accuracy(control),
                accuracy(right) - accuracy(control),
            )
        )
    baselines = accuracy(_majority(train, test)), accuracy(_majority_by_word(train, test))
    return ProbeStudy(len(set(train.labels)), len(train), len(test), *baselines, rows, mix)


def control_labels(
    train: LabelledVectors, test: LabelledVectors, seed: int
) -> tuple[list[str], list[str]]:
    """One random label for each word type, whatever its context, drawn as labels are distributed in the
    training data.
    """
    rng = np.random.default_rng(seed)
    names, counts = np.unique(train.labels, return_counts=True)
    types = sorted({*train.words, *test.words})
    drawn = rng.choice(names, size=len(types), p=counts / counts.sum())
    of_type = dict(zip(types, drawn.tolist(), strict=True))
    return [of_type[word] for word in train.words], [of_type[word] for word in test.words]


def learn_mix(train: LabelledVectors, seed: int, steps: int = 400, batch: int = 256) -> Floats:
    """Layer weights that a scalar mix learns together with a softmax layer. *Shape:* (layers,)."""
    fix_random_seed(seed)
    rng = np.random.default_rng(seed)
    names = sorted(set(train.labels))
    at = {name: i for i, name in enumerate(names)}
    y = np.array([at[label] for label in train.labels])
    n, width = train.layers.shape[1:]
    scale = (
        np.sqrt((train.layers**2).mean()) or 1.0
    )  # one scale for all layers keeps their proportions
    mix, softmax = ScalarMix(), Softmax(len(names), width)
    model: Model = chain(mix, _only_doc(), softmax)
    model.initialize(X=[train.layers[:, :1].astype("f")])
    optimizer = Adam(0.01, L2=0.0)
    for _ in range(steps):
        rows = rng.integers(n, size=min(batch, n))
        Y, backprop = model.begin_update([(train.layers[:, rows] / scale).astype("f")])
        backprop((Y - to_categorical(y[rows], n_classes=len(names))) / len(rows))
        model.finish_update(optimizer)
    return np.asarray(layer_weights(mix), dtype=np.float64)


def _only_doc() -> Model:
    """A list of one array to that array."""
    return Model("only_doc", lambda model, Xs, is_train: (Xs[0], lambda dX: [dX]))


def _fit_predict(
    train: Floats, test: Floats, labels: Sequence[str], strength: float
) -> NDArray[Any]:
    """Predicted labels of the test vectors; features are standardised by the training vectors."""
    if len(set(labels)) == 1:  # a control task of few types
        return np.full(len(test), labels[0])
    linear = require("sklearn.linear_model")
    scaler = require("sklearn.preprocessing").StandardScaler().fit(train)
    classifier = linear.LogisticRegression(C=strength, max_iter=200, tol=1e-3)
    classifier.fit(scaler.transform(train), labels)
    return np.asarray(classifier.predict(scaler.transform(test)))


def _majority(train: LabelledVectors, test: LabelledVectors) -> NDArray[np.bool_]:
    return np.array(test.labels) == most_frequent(train.labels)


def _majority_by_word(train: LabelledVectors, test: LabelledVectors) -> NDArray[np.bool_]:
    by_word: dict[str, list[str]] = {}
    for word, label in zip(train.words, train.labels, strict=True):
        by_word.setdefault(word, []).append(label)
    best = {word: most_frequent(labels) for word, labels in by_word.items()}
    fallback = most_frequent(train.labels)
    predicted = [best.get(word, fallback) for word in test.words]
    return np.array(predicted) == np.array(test.labels)


def most_frequent(labels: Sequence[str]) -> str:
    """Of several that are, the first in the alphabet."""
    names, counts = np.unique(labels, return_counts=True)
    return str(names[counts.argmax()])
