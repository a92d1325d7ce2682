"""spaCy's EntityLinker, the one component that must know its vectors' width before any data are seen."""

from typing import Any

# What spaCy sets on the model of an EntityLinker, of any version.
MARK = "include_span_maker"


def check_linker(component: Any) -> None:
    """Raises ValueError where component is an entity linker that cannot be trained: its residual layer
    takes the width of its tok2vec when it is built, and a biLM's is known when it has been read.
    """
    model = component.model
    if MARK not in model.attrs or model.get_ref("tok2vec").has_dim("nO") is True:
        return
    raise ValueError(
        f"'{component.name}' has an ElmoListener at the output of its tok2vec, or as its tok2vec, "
        "expected one at the input, as spaCy's entity linker must know the width before the biLM is "
        f"read: in [components.{component.name}.model.tok2vec] have spacy-elmo.ElmoTok2Vec.v1 with a "
        "listener as input and output = null."
    )
