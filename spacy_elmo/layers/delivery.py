"""What passes between the `elmo` component and its listeners while a batch is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from spacy.tokens import Doc
from thinc.api import Ops
from thinc.types import Floats3d

Backprop = Callable[[list[Floats3d]], object]


@dataclass
class Row:
    """The layers of a Doc, and the sum of the gradients that listeners sent back, if any are wanted."""

    layers: Floats3d
    learns: bool
    gradient: Floats3d | None = None


@dataclass
class Batch:
    """Docs that the biLM read together. backprop: Passes their gradients into it."""

    rows: list[Row]
    backprop: Backprop

    @property
    def has_gradients(self) -> bool:
        return any(row.gradient is not None for row in self.rows)


class Delivery:
    """Layers of Docs, made by the biLM's present weights, and the gradients of those in training.

    Docs are known by identity: a listener may ask for some of them, in any order (the parser leaves
    out examples without annotation), and two batches of the same words are never mixed up. They are
    not kept alive: `nlp.update` trains copies, so that its end is known by theirs.
    """

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._rows: WeakKeyDictionary[Doc, Row] = WeakKeyDictionary()
        self._batches: list[Batch] = []

    def __reduce__(self) -> tuple[type["Delivery"], tuple[Ops]]:
        """Copies and pickles of a component are made between batches: this one is not theirs."""
        return Delivery, (self._ops,)

    def add(
        self, docs: Sequence[Doc], layers: Sequence[Floats3d], backprop: Backprop | None
    ) -> None:
        """backprop: None: no gradients are wanted. Docs whose gradients are wanted stay as they are."""
        rows = [Row(X, backprop is not None) for X in layers]
        for doc, row in zip(docs, rows, strict=True):
            held = self._rows.get(doc)
            if held is None or not held.learns:
                self._rows[doc] = row
        if backprop is not None:
            self._batches.append(Batch(rows, backprop))

    def missing(self, docs: Sequence[Doc]) -> list[Doc]:
        """Those of docs that are not here, or whose tokens were merged or split since."""
        return [doc for doc in dict.fromkeys(docs) if self._row(doc) is None]

    def get(self, docs: Sequence[Doc]) -> list[Floats3d]:
        """Layers of docs, none of which is missing."""
        return [self._rows[doc].layers for doc in docs]

    def _row(self, doc: Doc) -> Row | None:
        row = self._rows.get(doc)
        return row if row is not None and row.layers.shape[1] == len(doc) else None

    def add_gradients(self, docs: Sequence[Doc], d_layers: list[Floats3d]) -> None:
        """Raises RuntimeError where the biLM has been updated since: nothing is lost silently."""
        for doc, dX in zip(docs, d_layers, strict=True):
            row = self._rows.get(doc)
            if row is None:
                raise RuntimeError(
                    "An ElmoListener sent a gradient after its `elmo` was updated, expected it before: "
                    "call finish_update of `elmo` after the update of every component that listens to it."
                )
            if row.learns:
                row.gradient = dX if row.gradient is None else row.gradient + dX

    @property
    def is_open(self) -> bool:
        """Whether gradients are wanted and may still come."""
        return any(row.learns for row in list(self._rows.values()))

    @property
    def waits(self) -> bool:
        """Whether gradients are wanted and none has come."""
        return bool(self._batches) and not any(batch.has_gradients for batch in self._batches)

    def finish(self) -> float:
        """Pass the sums on into the biLM, once. Returns the sum of their squares."""
        batches, self._batches = self._batches, []
        for doc, row in list(self._rows.items()):
            if row.learns:
                del self._rows[doc]
        return sum(self._pass_on(batch) for batch in batches if batch.has_gradients)

    def _pass_on(self, batch: Batch) -> float:
        total = [
            self._ops.alloc3f(*row.layers.shape) if row.gradient is None else row.gradient
            for row in batch.rows
        ]
        batch.backprop(total)
        return sum(float(self._ops.xp.vdot(dX, dX)) for dX in total)
