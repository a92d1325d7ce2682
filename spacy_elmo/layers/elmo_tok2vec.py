"""A task's own tok2vec with ELMo concatenated at its input, at its output, or both
(Peters et al. 2018, section 3.3)."""

from spacy.tokens import Doc
from thinc.api import Maxout, Model, chain, concatenate, with_array
from thinc.types import Floats2d

DocsToVectors = Model[list[Doc], list[Floats2d]]
VectorsToVectors = Model[list[Floats2d], list[Floats2d]]


def elmo_tok2vec(
    embed: DocsToVectors,
    encode: VectorsToVectors,
    input: DocsToVectors | None,
    output: DocsToVectors | None,
) -> DocsToVectors:
    """At the input [embed; ELMo] goes through a maxout layer back to the width that encode takes, as
    spaCy does with static vectors, so that encode is what it is without ELMo. At the output the result is
    [encode; ELMo] itself, as wide as both together.
    """
    if input is None and output is None:
        raise ValueError(
            "ElmoTok2Vec has input = null and output = null, expected an ElmoListener (or Elmo) at one "
            "of them: where they stand is where ELMo is concatenated."
        )
    embedded = embed if input is None else chain(concatenate(embed, input), _reduce(encode))
    tok2vec: DocsToVectors = chain(embedded, encode)
    if output is not None:
        tok2vec = concatenate(tok2vec, output)
    elif encode.has_dim("nO"):
        tok2vec.set_dim("nO", encode.get_dim("nO"))
    tok2vec.set_ref("embed", embed)
    tok2vec.set_ref("encode", encode)
    return tok2vec


def _reduce(encode: VectorsToVectors) -> VectorsToVectors:
    """To the width that encode takes; an encoder with residual connections only states its output's,
    which is the same.
    """
    width = encode.maybe_get_dim("nI") or encode.maybe_get_dim("nO")
    if width is None:
        raise ValueError(
            f"ElmoTok2Vec cannot tell the width that encode ('{encode.name}') takes, expected an "
            "encoder such as spacy.MaxoutWindowEncoder.v2: ELMo at the input is reduced to it."
        )
    return with_array(Maxout(width, nP=3, dropout=0.0, normalize=True))
