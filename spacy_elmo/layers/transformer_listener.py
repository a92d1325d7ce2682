"""A task's end of a spacy-transformers `transformer`: all its layers in, the task's own mix out."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

from spacy.tokens import Doc
from spacy_transformers.data_classes import TransformerData
from spacy_transformers.layers import TransformerListener, split_trf_batch
from spacy_transformers.pipeline_component import Transformer
from thinc.api import Model, chain
from thinc.types import Floats2d, Floats3d
from transformers.file_utils import ModelOutput

from .configured_dropout import configured_dropout
from .listener import Link, initialize_mix
from .transformer_layers import HiddenGradients, Pooling, sizes, token_layers, watch

InT = list[Doc]
OutT = list[Floats2d]


class TransformerMixListener(TransformerListener):
    """Model[list[Doc], list[Floats2d]]: mixes all hidden layers of an upstream `transformer`.

    upstream (str): Name of that component; "*": any before. mix (Model): A scalar mix, learned by the
    task. dropout (float): On the mixed vectors, while training. pooling (Model): Of a token's wordpieces.
    grad_factor (float): Times the gradient that the transformer gets.
    """

    def __init__(
        self,
        upstream: str,
        mix: Model[list[Floats3d], list[Floats2d]],
        dropout: float,
        pooling: Pooling,
        grad_factor: float,
    ) -> None:
        super().__init__(upstream)
        head: Model[list[Floats3d], list[Floats2d]] = chain(mix, configured_dropout(dropout))
        Model.__init__(
            self,
            "transformer_mix_listener",
            forward,
            init=init,
            dims={"nO": None},
            layers=[head, pooling],
            refs={"mix": mix, "pooling": pooling},
            attrs={"grad_factor": grad_factor},
        )
        self.link = Link()
        self.gradients: HiddenGradients | None = None

    def connect(self, upstream: Transformer) -> None:
        watch(upstream.model)
        upstream.model.attrs["replace_listener"] = replace_listener
        if self.link.upstream is not upstream:
            self.link = Link(upstream)

    def require_upstream(self) -> Transformer:
        if self.link.upstream is None:
            raise ValueError(
                f"A TransformerMixListener with upstream = '{self.upstream_name}' found no such "
                "`transformer` component before its own component in the pipeline: add one of "
                "spacy-transformers there, or correct the name."
            )
        return self.link.upstream

    def receive(self, batch_id: int, outputs: list[TransformerData], backprop: Any) -> None:
        super().receive(batch_id, outputs, backprop)
        self.gradients = watch(self.require_upstream().model).gradients

    def data_of(
        self, docs: Sequence[Doc], is_train: bool
    ) -> tuple[list[TransformerData], Callable[[list[TransformerData]], Any] | None]:
        """What the transformer made of docs: the batch in training, with its backprop; else what the
        Docs carry; else the upstream component makes it now (as `initialize` needs).
        """
        if is_train and self._batch_id is not None:
            self.verify_inputs(docs)
            return self._outputs, self.backprop_and_clear
        bare = [doc for doc in docs if doc._.trf_data is None]
        if bare:
            upstream = self.require_upstream()
            upstream.set_annotations(bare, upstream.predict(bare))
        return [doc._.trf_data for doc in docs], None


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    assert isinstance(model, TransformerMixListener)
    initialize_mix(model, *sizes(model.require_upstream().model))


def forward(
    model: Model[InT, OutT], docs: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], InT]]:
    assert isinstance(model, TransformerMixListener)
    head, pooling = model.layers
    mix = model.get_ref("mix")
    shape = mix.get_dim("nL"), mix.get_dim("nO")
    datas, backprop_transformer = model.data_of(docs, is_train)
    pooled = [token_layers(model.ops, pooling, data, *shape) for data in datas]
    outputs, backprop_head = head([layers for layers, _ in pooled], is_train=is_train)

    def backprop(d_outputs: OutT) -> InT:
        d_layers = backprop_head(d_outputs)
        if backprop_transformer is None:
            return []
        factor = model.attrs["grad_factor"]
        d_hidden = [
            back(cast(Floats3d, dX * factor))
            for (_, back), dX in zip(pooled, d_layers, strict=True)
        ]
        present = [(data, dX) for data, dX in zip(datas, d_hidden, strict=True) if dX]
        if model.gradients is not None and present:
            for k in range(shape[0] - 1):
                below_top = model.ops.xp.concatenate([dX[k] for _, dX in present])
                model.gradients.add(k, below_top)
        # The top layer's goes the way that spacy-transformers has for it, and takes the others along.
        backprop_transformer([_gradient(data, dX[-1]) for data, dX in present])
        return []

    return outputs, backprop


def _gradient(data: TransformerData, d_top: Floats3d) -> TransformerData:
    return TransformerData(
        wordpieces=data.wordpieces,
        model_output=ModelOutput(last_hidden_state=d_top),
        align=data.align,
    )


def replace_listener(transformer: Model, listener: Model, upstream: Transformer) -> Model:
    """What `nlp.replace_listeners` asks for; spacy-transformers' own where the listener is its own."""
    if isinstance(listener, TransformerMixListener):
        raise ValueError(
            "nlp.replace_listeners cannot replace a TransformerMixListener: keep the `transformer` "
            "component in the pipeline, and source or package them together."
        )
    return chain(transformer, split_trf_batch())


def _connecting(add_listener: Callable[..., None]) -> Callable[..., None]:
    @wraps(add_listener)
    def add_and_connect(self: Transformer, listener: Model, component_name: str) -> None:
        add_listener(self, listener, component_name)
        if isinstance(listener, TransformerMixListener):
            listener.connect(self)

    return add_and_connect


# A component knows its listeners, but tells none who it is. This is the one place where it could.
Transformer.add_listener = _connecting(Transformer.add_listener)
