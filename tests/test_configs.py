"""The configs that the repository shows: they are what init-config writes, and they train."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config, load_config_from_str
from thinc.api import Config

from spacy_elmo.training_config import elmo_config

ROOT = Path(__file__).parents[1]
PIPELINES = {
    "ner": ["ner"],
    "tagger_parser": ["tagger", "parser"],
    "all": ["tagger", "morphologizer", "trainable_lemmatizer", "parser", "ner"],
}
QUICK = {
    "training.max_steps": 3,
    "training.eval_frequency": 2,
    "training.logger": {"@loggers": "spacy.ConsoleLogger.v1", "progress_bar": False},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four annotated sentences, many times."""
    vocab = spacy.blank("en").vocab
    docs = []
    for name, place in [("Ana", "Oslo"), ("Ben", "Rome"), ("Cleo", "Paris"), ("Dan", "Lima")]:
        doc = Doc(
            vocab,
            words=[name, "likes", place, "."],
            tags=["NNP", "VBZ", "NNP", "."],
            pos=["PROPN", "VERB", "PROPN", "PUNCT"],
            morphs=["Number=Sing", "Tense=Pres", "Number=Sing", ""],
            lemmas=[name, "like", place, "."],
            heads=[1, 1, 1, 1],
            deps=["nsubj", "ROOT", "obj", "punct"],
        )
        doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, 2, 3, "PLACE")]
        docs.append(doc)
    path = tmp_path_factory.mktemp("corpus") / "corpus.spacy"
    # The parser keeps labels that it has seen 30 times.
    DocBin(docs=docs * 10).to_disk(path)
    return path


def shown_configs() -> Iterator[tuple[str, Config]]:
    for path in sorted((ROOT / "configs").glob("*.cfg")):
        if path.stem in PIPELINES:
            yield path.name, load_config(path)
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    for i, block in enumerate(re.findall(r"```ini\n(.*?)```", readme, re.DOTALL)):
        yield f"README block {i}", load_config_from_str(block)


@pytest.mark.parametrize(("name", "config"), list(shown_configs()))
def test_trains_as_it_stands(
    name: str, config: Config, corpus: Path, bilm_dir: Path, tmp_path: Path
) -> None:
    paths = {"paths.train": str(corpus), "paths.dev": str(corpus), "paths.bilm": str(bilm_dir)}
    config = Config().from_str(config.to_str(), overrides={**paths, **QUICK})
    nlp = init_nlp(config)
    train(nlp, tmp_path)
    loaded = spacy.load(tmp_path / "model-last")
    text = "Eva likes Berlin."
    assert loaded(text).to_json() == nlp(text).to_json()
    assert loaded(text)._.elmo.layers.shape == (3, 4, 16)


def test_readme_shows_a_config() -> None:
    assert any(name.startswith("README") for name, _ in shown_configs())


@pytest.mark.parametrize("name", PIPELINES)
def test_is_what_init_config_writes(name: str) -> None:
    """After a change of the template: python -m spacy elmo init-config --pipeline ... -o configs/...

    spaCy's own defaults may differ from version to version, so only this package's parts must agree.
    """
    shown = load_config(ROOT / "configs" / f"{name}.cfg")
    written, _ = elmo_config("en", PIPELINES[name], "en_elmo_sm", "both", "efficiency")
    assert shown["components"]["elmo"] == written["components"]["elmo"]
    assert shown["nlp"]["pipeline"] == written["nlp"]["pipeline"]
    assert shown["paths"]["bilm"] == written["paths"]["bilm"]
    for component in PIPELINES[name]:
        expected = written["components"][component]["model"]["tok2vec"]
        assert shown["components"][component]["model"]["tok2vec"] == expected
