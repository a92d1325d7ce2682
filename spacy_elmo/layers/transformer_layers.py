"""All hidden layers of a spacy-transformers `transformer`, a vector a token; and their gradients back.

spacy-transformers passes on what its transformer returns, which by default is the last layer, and takes a
gradient back for that layer only. Both are arranged by the two converters that its Thinc model holds as
attributes, so `watch` replaces those, on that one model, by converters that do the same and more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from spacy_transformers.align import apply_alignment
from spacy_transformers.data_classes import TransformerData
from thinc.api import Model, Ops, reduce_mean, xp2torch
from thinc.types import ArgsKwargs, Floats2d, Floats3d, Ragged

if TYPE_CHECKING:
    from torch import Tensor

Pooling = Model[Ragged, Floats2d]


class HiddenGradients:
    """What listeners send back to the hidden layers of one batch. torch adds each layer's sum to the
    gradient that comes down from the layer above, when it passes there.
    """

    def __init__(self, hidden: Sequence["Tensor"]) -> None:
        self._sums: list[Tensor | None] = [None] * len(hidden)
        for k, layer in enumerate(hidden):
            if layer.requires_grad:
                layer.register_hook(partial(self._with_sum, k))

    def add(self, k: int, gradient: Floats3d) -> None:
        """gradient: Of the batch's layer k. *Shape:* (spans, wordpieces, width)."""
        held = self._sums[k]
        new = xp2torch(gradient)
        self._sums[k] = new if held is None else held + new

    def _with_sum(self, k: int, gradient: "Tensor") -> "Tensor":
        extra = self._sums[k]
        return gradient if extra is None else gradient + extra.to(gradient)


@dataclass
class Watch:
    """The converters in place of a transformer's own.

    gradients: Of the last batch that was run for training.
    """

    inputs: Callable[..., Any]
    outputs: Callable[..., Any]
    gradients: HiddenGradients | None = field(default=None, compare=False)

    def convert_inputs(self, model: Model, wordpieces: Any, is_train: bool) -> Any:
        arguments, backprop = self.inputs(model, wordpieces, is_train)
        kwargs = {**arguments.kwargs, "output_hidden_states": True}
        return ArgsKwargs(args=arguments.args, kwargs=kwargs), backprop

    def convert_outputs(self, model: Model, inputs_outputs: Any, is_train: bool) -> Any:
        _, output = inputs_outputs
        self.gradients = HiddenGradients(output.hidden_states) if is_train else None
        return self.outputs(model, inputs_outputs, is_train)


def watch(transformer: Model) -> Watch:
    """Make a spacy-transformers model return all its hidden layers, and take gradients for them."""
    wrapper = transformer.layers[0]
    owner = getattr(wrapper.attrs["convert_outputs"], "__self__", None)
    if isinstance(owner, Watch):
        return owner
    if getattr(wrapper.shims[0], "_mixed_precision", False):
        raise ValueError(
            "The transformer has mixed_precision = true, expected false: its gradients are scaled, those "
            "of the layers below the top would not be."
        )
    watching = Watch(wrapper.attrs["convert_inputs"], wrapper.attrs["convert_outputs"])
    wrapper.attrs["convert_inputs"] = watching.convert_inputs
    wrapper.attrs["convert_outputs"] = watching.convert_outputs
    return watching


def sizes(transformer: Model) -> tuple[int, int]:
    """Layers of a transformer, the embedding layer included, and the width of each."""
    config = cast(Any, transformer).transformer.config
    return config.num_hidden_layers + 1, config.hidden_size


def doc_layers(transformer: Model, data: TransformerData) -> Floats3d:
    """Layers of one Doc; a token's vector is the mean of its wordpieces'.

    *Shape:* (layers, tokens, width); zero rows for tokens without wordpieces.
    """
    n_layers, width = sizes(transformer)
    layers, _ = token_layers(transformer.ops, reduce_mean(), data, n_layers, width)
    return layers


def token_layers(
    ops: Ops, pooling: Pooling, data: TransformerData, n_layers: int, width: int
) -> tuple[Floats3d, Callable[[Floats3d], list[Floats3d]]]:
    """Layers of one Doc, pooled from wordpieces to tokens.

    backprop: Gradients of the token layers, (layers, tokens, width), to those of the wordpieces, one
        (spans, wordpieces, width) a layer.
    """
    hidden = _hidden_states(data, n_layers)
    n_tokens = len(data.align.lengths)
    if not hidden or not n_tokens or not int(data.align.lengths.sum()):
        empty = [] if not hidden else [ops.alloc3f(*hidden[0].shape) for _ in hidden]
        return ops.alloc3f(n_layers, n_tokens, width), lambda _: empty
    shape = hidden[0].shape
    # (wordpieces, layers * width): one alignment and one pooling for all layers
    stacked = ops.xp.stack([ops.asarray3f(layer) for layer in hidden], axis=-2)
    flat = ops.reshape2f(stacked, -1, n_layers * width)
    aligned, backprop_align = apply_alignment(ops, data.align, flat)
    pooled, backprop_pool = pooling(aligned, is_train=True)
    present = ops.asarray2f((ops.asarray1i(data.align.lengths) > 0)[:, None].astype("f"))
    by_token = ops.reshape3f(cast(Floats3d, pooled * present), n_tokens, n_layers, width)
    layers = ops.xp.transpose(by_token, (1, 0, 2))

    def backprop(d_layers: Floats3d) -> list[Floats3d]:
        d_pooled = ops.xp.transpose(d_layers, (1, 0, 2)).reshape(n_tokens, -1) * present
        d_flat = backprop_align(backprop_pool(ops.as_contig(d_pooled)))
        d_hidden = d_flat.reshape(*shape[:2], n_layers, width)
        return [d_hidden[:, :, k] for k in range(n_layers)]

    return ops.as_contig(layers), backprop


def _hidden_states(data: TransformerData, n_layers: int) -> list[Floats3d]:
    """(spans, wordpieces, width) a layer; none for a Doc without tokens."""
    if "last_hidden_state" not in data.model_output:
        return []
    hidden = data.model_output.get("hidden_states")
    if hidden is None or len(hidden) != n_layers:
        found = "only the last layer" if hidden is None else f"{len(hidden)} layers"
        raise ValueError(
            f"doc._.trf_data holds {found}, expected {n_layers} hidden layers: let the `transformer` "
            "component run in this pipeline, before the one that listens to it."
        )
    # The last of them is what last_hidden_state is in most models, but not in all.
    return [*hidden[:-1], data.model_output.last_hidden_state]
