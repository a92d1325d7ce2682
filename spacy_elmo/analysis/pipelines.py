"""What a user may call a pipeline: a spaCy pipeline, a biLM, or a transformer's folder."""

import json
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.util import is_package

from ..bilm.errors import BiLMError
from ..bilm.loading import find
from ..extras import require


class PipelineError(ValueError):
    """No pipeline with layers to look at; the message says what was found and expected."""


def load_pipeline(name: str, lang: str = "en") -> Language:
    """A saved or installed spaCy pipeline; or a blank one of that language around a biLM (name or path)
    or a Hugging Face transformer (path of its folder).
    """
    path = Path(name)
    if is_package(name) or _is_pipeline(path):
        return spacy.load(name)
    if _is_transformer(path):
        return _with_transformer(path, lang)
    try:
        find(name).inspect()
    except BiLMError as error:
        raise PipelineError(
            f"'{name}' is neither a spaCy pipeline (a folder with meta.json, or an installed package) "
            f"nor a biLM, nor a transformer's folder. As a biLM: {error}"
        ) from error
    nlp = spacy.blank(lang)
    nlp.add_pipe("elmo", config={"model": {"name": name}})
    return nlp


def _is_pipeline(path: Path) -> bool:
    meta = path / "meta.json"
    return meta.is_file() and "lang" in json.loads(meta.read_text(encoding="utf8"))


def _is_transformer(path: Path) -> bool:
    config = path / "config.json"
    if not config.is_file() or not (path / "tokenizer_config.json").is_file():
        return False
    return "num_hidden_layers" in json.loads(config.read_text(encoding="utf8"))


def _with_transformer(path: Path, lang: str) -> Language:
    require("spacy_transformers", "transformers")
    nlp = spacy.blank(lang)
    model = {
        "@architectures": "spacy-transformers.TransformerModel.v3",
        "name": str(path.absolute()),
        "get_spans": {
            "@span_getters": "spacy-transformers.strided_spans.v1",
            "window": 128,
            "stride": 96,
        },
        "tokenizer_config": {"use_fast": True},
    }
    nlp.add_pipe("transformer", config={"model": model}).model.initialize()  # type: ignore[attr-defined]
    return nlp
