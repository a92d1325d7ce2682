"""A task model's end of the `elmo` component: its layers in, the task's own mix out."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d, Floats3d

from ..output import get_layers
from .configured_dropout import configured_dropout
from .delivery import Delivery

InT = list[Doc]
OutT = list[Floats2d]


class Upstream(Protocol):
    """What a listener needs of the `elmo` component."""

    name: str

    def sizes(self) -> tuple[int, int]:
        """Layers, and the width of each."""

    @property
    def delivery(self) -> Delivery:
        """Layers that it has made with its present weights."""

    def deliver(self, docs: Sequence[Doc]) -> Delivery:
        """The same, with those of docs."""


class Link:
    """A listener's connection. A copy shares the upstream component, unless that is copied with it; a
    pickle takes it along.
    """

    def __init__(self, upstream: Upstream | None = None) -> None:
        self._upstream = weakref.ref(upstream) if upstream is not None else None

    @property
    def upstream(self) -> Upstream | None:
        return self._upstream() if self._upstream is not None else None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Link":
        return Link(memo.get(id(self.upstream), self.upstream))

    def __getstate__(self) -> dict[str, Upstream | None]:
        return {"upstream": self.upstream}

    def __setstate__(self, state: dict[str, Upstream | None]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class ElmoListener(Model[InT, OutT]):
    """Model[list[Doc], list[Floats2d]]: mixes the layers that an upstream `elmo` component made.

    upstream (str): Name of that component; "*": the nearest one before.
    mix (Model): A scalar mix, learned by the task.
    dropout (float): On the mixed vectors, while training.
    """

    def __init__(
        self, upstream: str, mix: Model[list[Floats3d], list[Floats2d]], dropout: float
    ) -> None:
        head: Model[list[Floats3d], list[Floats2d]] = chain(mix, configured_dropout(dropout))
        super().__init__(
            "elmo_listener",
            forward,
            init=init,
            dims={"nO": None},
            layers=[head],
            refs={"mix": mix},
        )
        self.upstream_name = upstream
        self.link = Link()

    def connect(self, upstream: Upstream) -> None:
        if self.link.upstream is not upstream:
            self.link = Link(upstream)

    def known_layers(self, docs: Sequence[Doc]) -> list[Floats3d]:
        """Layers to predict from: those that the upstream component has made of docs with its present
        weights, else those that docs carry, else it makes them now (as `initialize` needs).
        """
        upstream = self.link.upstream
        if upstream is None:
            name = None if self.upstream_name == "*" else self.upstream_name
            made: set[Doc] = set()
        else:
            name = upstream.name
            made = set(docs) - set(upstream.delivery.missing(docs))
        found = {doc: get_layers(doc, name) for doc in docs if doc not in made}
        bare = [doc for doc in docs if doc in made or found[doc] is None]
        if bare:
            made_now = self.require_upstream().deliver(bare).get(bare)
            found.update(zip(bare, made_now, strict=True))
        # Stored layers may have come from another device.
        return [self.ops.asarray3f(found[doc]) for doc in docs]  # type: ignore[arg-type]

    def check_sizes(self, layers: Sequence[Floats3d]) -> None:
        """Raises ValueError unless layers are of the biLM whose layers the mix has learned to mix."""
        mix = self.get_ref("mix")
        if not mix.has_dim("nL"):
            return
        expected = (mix.get_dim("nL"), mix.get_dim("nO"))
        for X in layers:
            if (found := (X.shape[0], X.shape[2])) != expected:
                raise ValueError(
                    f"An ElmoListener with upstream = '{self.upstream_name}' got {found[0]} layers of "
                    f"width {found[1]}, expected {expected[0]} of width {expected[1]}: let it listen to "
                    "the `elmo` that its component was trained with, or train a new one."
                )

    def require_upstream(self) -> Upstream:
        if self.link.upstream is None:
            wanted = "" if self.upstream_name == "*" else f" named '{self.upstream_name}'"
            raise ValueError(
                f"An ElmoListener with upstream = '{self.upstream_name}' found no `elmo` component"
                f"{wanted} before its own component in the pipeline: add one there, "
                'nlp.add_pipe("elmo", first=True), or correct the name.'
            )
        return self.link.upstream


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    assert isinstance(model, ElmoListener)
    initialize_mix(model, *model.require_upstream().sizes())


def initialize_mix(listener: Model[InT, OutT], n_layers: int, width: int) -> None:
    """Of any listener, once it is known how many layers it listens to, and how wide they are."""
    mix = listener.get_ref("mix")
    mix.set_dim("nL", n_layers, force=True)
    mix.set_dim("nO", width, force=True)
    mix.initialize()
    listener.set_dim("nO", width, force=True)


def forward(
    model: Model[InT, OutT], docs: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], InT]]:
    """In training never from what docs carry, which a biLM in training made with other weights."""
    assert isinstance(model, ElmoListener)
    upstream = model.link.upstream
    delivery = upstream.deliver(docs) if is_train and upstream is not None else None
    layers = model.known_layers(docs) if delivery is None else delivery.get(docs)
    model.check_sizes(layers)
    outputs, backprop_head = model.layers[0](layers, is_train=is_train)

    def backprop(d_outputs: OutT) -> InT:
        d_layers = backprop_head(d_outputs)
        if delivery is not None:
            delivery.add_gradients(docs, d_layers)
        return []

    return outputs, backprop
