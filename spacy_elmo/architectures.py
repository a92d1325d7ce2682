"""What configs name under @architectures; each builds from layers/."""

from spacy.tokens import Doc
from thinc.api import Model, chain, reduce_mean
from thinc.types import Floats2d, Floats3d, Ragged

from .bilm.precision import Precision
from .extras import require
from .layers.bilm_model import Reading, bilm_model
from .layers.configured_dropout import configured_dropout
from .layers.elmo_tok2vec import elmo_tok2vec
from .layers.listener import ElmoListener
from .layers.scalar_mix import ScalarMix
from .spans import SpanGetter, sentence_spans

Mix = Model[list[Floats3d], list[Floats2d]]
DocsToVectors = Model[list[Doc], list[Floats2d]]


def bilm_v1(
    name: str,
    trainable: bool = False,
    get_spans: SpanGetter | None = None,
    batch_words: int = 4096,
    carry_state: bool = False,
    precision: Precision = "float32",
) -> Model[list[Doc], list[Floats3d]]:
    """spacy-elmo.BiLM.v1: the biLM; Docs to (layers, tokens, width) each.

    name (str): A packaged or downloaded model's name, the path of a biLM in any known layout, or
        "options.json,weights.hdf5", two files. Read when first needed; a saved pipeline holds the weights
        and does not read it again. A directory may hold the token vectors of a vocabulary as well.
    trainable (bool): Train the biLM with the tasks that listen to it. False: it is frozen, and
        neither autograd nor the optimizer knows of it.
    get_spans: Tokens read as one sequence; null: `spacy-elmo.sentence_spans.v1`.
    batch_words (int): Words read at once, padding included. Bounds memory, does not change results.
    carry_state (bool): Start each sequence of a Doc from the state that the one before left, instead
        of from zero.
    precision (str): "float32"; "bfloat16" or "int8": faster and rougher (README has the errors), for
        a frozen biLM.
    """
    if trainable and precision != "float32":
        raise ValueError(
            f'spacy-elmo.BiLM.v1 has trainable = true and precision = "{precision}", expected "float32" '
            "for a biLM that is trained."
        )
    reading = Reading(get_spans or sentence_spans(), batch_words, carry_state, precision)
    return bilm_model(name, trainable=trainable, reading=reading)


def elmo_listener_v1(
    upstream: str = "*", mix: Mix | None = None, dropout: float = 0.5
) -> DocsToVectors:
    """spacy-elmo.ElmoListener.v1: the layers of the `elmo` component, mixed for this task.

    upstream (str): Name of the component; "*": the nearest one before.
    mix: `spacy-elmo.ScalarMix.v1`; null: a learned one.
    dropout (float): On the mixed vectors, while training; `training.dropout` does not change it.
    """
    return ElmoListener(upstream, mix or ScalarMix(), dropout)


def elmo_v1(
    bilm: Model[list[Doc], list[Floats3d]], mix: Mix | None = None, dropout: float = 0.5
) -> DocsToVectors:
    """spacy-elmo.Elmo.v1: biLM and mix inside one component, without an `elmo` component.

    bilm: `spacy-elmo.BiLM.v1`. mix, dropout: As of the listener.
    """
    return chain(bilm, mix or ScalarMix(), configured_dropout(dropout))


def elmo_tok2vec_v1(
    embed: DocsToVectors,
    encode: Model[list[Floats2d], list[Floats2d]],
    input: DocsToVectors | None = None,
    output: DocsToVectors | None = None,
) -> DocsToVectors:
    """spacy-elmo.ElmoTok2Vec.v1: a task's own embed and encode, with ELMo at the input and/or output.

    embed, encode: As of `spacy.Tok2Vec.v2`.
    input: A listener (or `spacy-elmo.Elmo.v1`) whose vectors are concatenated to those of embed and
        reduced to the width of encode. output: Likewise to those of encode. Either may be null.
    """
    return elmo_tok2vec(embed, encode, input, output)


def transformer_mix_listener_v1(
    upstream: str = "*",
    mix: Mix | None = None,
    dropout: float = 0.5,
    pooling: Model[Ragged, Floats2d] | None = None,
    grad_factor: float = 1.0,
) -> DocsToVectors:
    """spacy-elmo.TransformerMixListener.v1: all hidden layers of a spacy-transformers `transformer`
    component, its embedding layer included, mixed for this task. Needs spacy-transformers.

    upstream, mix, dropout: As of the ElmoListener.
    pooling: Of the wordpieces of a token; null: their mean (`reduce_mean.v1`).
    grad_factor (float): Times the gradient that the transformer gets; 0 freezes it for this task.
    """
    require("spacy_transformers", "transformers")
    from .layers.transformer_listener import TransformerMixListener

    return TransformerMixListener(
        upstream, mix or ScalarMix(), dropout, pooling or reduce_mean(), grad_factor
    )
