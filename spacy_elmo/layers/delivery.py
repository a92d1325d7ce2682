"""What passes between the `elmo` component and its listeners while a batch is trained."""

from collections.abc import Callable, Sequence

from spacy.tokens import Doc
from thinc.api import Ops
from thinc.types import Floats3d

Backprop = Callable[[list[Floats3d]], object]


class Delivery:
    """The layers of one batch of Docs, and the sum of the gradients that listeners send back.

    Docs are known by identity: a listener may ask for some of them, in any order (the parser leaves
    out examples without annotation), and two batches of the same words are never mixed up.

    backprop: Passes the summed gradients into the biLM; None: it is frozen, none are summed.
    """

    def __init__(
        self, ops: Ops, docs: Sequence[Doc], layers: list[Floats3d], backprop: Backprop | None
    ) -> None:
        self._ops = ops
        self._docs = list(docs)  # keeps them alive: their ids are the keys
        self._rows = {id(doc): row for row, doc in enumerate(self._docs)}
        self._layers = layers
        self._backprop = backprop
        self.is_frozen = backprop is None
        self._gradients: list[Floats3d | None] = [None] * len(self._docs)

    def __reduce__(self) -> tuple[type["Delivery"], tuple[Ops, list[Doc], list[Floats3d], None]]:
        """Copies and pickles of a component are made between batches: this one is not theirs."""
        return Delivery, (self._ops, [], [], None)

    def get(self, docs: Sequence[Doc]) -> list[Floats3d] | None:
        """Layers of docs, or None if one of them is not of this batch."""
        if not all(id(doc) in self._rows for doc in docs):
            return None
        return [self._layers[self._rows[id(doc)]] for doc in docs]

    def add_gradients(self, docs: Sequence[Doc], d_layers: list[Floats3d]) -> None:
        if self._backprop is None:
            return
        for doc, dX in zip(docs, d_layers, strict=True):
            row = self._rows[id(doc)]
            held = self._gradients[row]
            self._gradients[row] = dX if held is None else held + dX

    @property
    def waits(self) -> bool:
        """Whether gradients are wanted and none has come."""
        return self._backprop is not None and all(dX is None for dX in self._gradients)

    def finish(self) -> float:
        """Pass the sum on into the biLM, once. Returns the sum of its squares."""
        backprop, self._backprop = self._backprop, None
        if backprop is None or all(dX is None for dX in self._gradients):
            return 0.0
        total = [
            self._ops.alloc3f(*X.shape) if dX is None else dX
            for X, dX in zip(self._layers, self._gradients, strict=True)
        ]
        backprop(total)
        return sum(float(self._ops.xp.vdot(dX, dX)) for dX in total)
