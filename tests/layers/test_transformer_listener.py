"""The mix over a transformer's layers: the same numbers and gradients as torch itself finds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import load_config, registry
from thinc.api import ConfigValidationError, Model

pytest.importorskip("spacy_transformers")

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.layers.scalar_mix import ScalarMix
from spacy_elmo.layers.transformer_layers import doc_layers

CONFIG = Path(__file__).parents[2] / "configs" / "ner_transformer_mix.cfg"
TEXTS = ["Ana likes playing in Oslo .", "Ben sleeps .", "the dog , playing"]
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "ana",
    "ben",
    "likes",
    "play",
    "##ing",
    "in",
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small transformer of random weights, 3 layers of width 8, without dropout."""
    place = tmp_path_factory.mktemp("bert")
    pieces = [*PIECES, "oslo", "dog", "the", "sleep", "##s", ".", ","]
    (place / "vocab.txt").write_text("\n".join(pieces))
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(place)
    BertTokenizerFast(str(place / "vocab.txt")).save_pretrained(place)
    return place


def transformer_model(bert: Path) -> dict[str, Any]:
    return {
        "@architectures": "spacy-transformers.TransformerModel.v3",
        "name": str(bert),
        "get_spans": {"@span_getters": "spacy-transformers.sent_spans.v1"},
        "tokenizer_config": {"use_fast": True},
    }


def listener(**settings: Any) -> dict[str, Any]:
    return {"@architectures": "spacy-elmo.TransformerMixListener.v1", "dropout": 0.0, **settings}


PLAIN = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "pooling": {"@layers": "reduce_mean.v1"},
}


def tagger(tok2vec: dict[str, Any]) -> dict[str, Any]:
    return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}


def pipeline(bert: Path, *tok2vecs: dict[str, Any]) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("transformer", config={"model": transformer_model(bert)})
    for i, tok2vec in enumerate(tok2vecs):
        nlp.add_pipe("tagger", f"tagger{i}", config=tagger(tok2vec))
    nlp.initialize(lambda: examples(nlp))
    return nlp


def examples(nlp: Language) -> list[Example]:
    found = []
    for text in TEXTS:
        doc = nlp.make_doc(text)
        words = [token.text for token in doc]
        spaces = [bool(token.whitespace_) for token in doc]
        sents = [i == 0 for i in range(len(doc))]
        made = Doc(nlp.vocab, words, spaces, tags=[word[0] for word in words], sent_starts=sents)
        found.append(Example(doc, made))
        for i, token in enumerate(doc):
            token.is_sent_start = i == 0
    return found


def node(nlp: Language, name: str = "tagger0") -> Model:
    pipe: Any = nlp.get_pipe(name)
    return next(n for n in pipe.model.walk() if n.name == "transformer_mix_listener")


def torch_model(nlp: Language) -> BertModel:
    pipe: Any = nlp.get_pipe("transformer")
    return pipe.model.transformer


def torch_layers(nlp: Language, docs: list[Doc]) -> list[torch.Tensor]:
    """(layers, tokens, width) of each Doc, its gradient recorded; wordpieces are averaged in a loop."""
    pipe: Any = nlp.get_pipe("transformer")
    result = []
    for doc in docs:
        encoded = pipe.model.tokenizer(doc.text, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded.pop("offset_mapping")[0].tolist()
        hidden = torch_model(nlp)(**encoded, output_hidden_states=True).hidden_states
        tokens = []
        for token in doc:
            end = token.idx + len(token)
            own = [k for k, (a, b) in enumerate(offsets) if a < b and token.idx <= a and b <= end]
            tokens.append(torch.stack([layer[0, own].mean(0) for layer in hidden]))
        result.append(torch.stack(tokens, dim=1))
    return result


def test_mixes_all_layers_embeddings_included(bert: Path) -> None:
    nlp = pipeline(bert, listener())
    docs = [nlp.get_pipe("transformer")(example.predicted) for example in examples(nlp)]
    mix = node(nlp).get_ref("mix")
    assert (mix.get_dim("nL"), mix.get_dim("nO")) == (4, 8)
    mix.set_param("scalars", np.array([0.5, -1.0, 2.0, 0.0], dtype="f"))
    mix.set_param("gamma", np.array([1.5], dtype="f"))
    weights = torch.softmax(torch.tensor([0.5, -1.0, 2.0, 0.0]), 0)
    for found, layers in zip(node(nlp).predict(docs), torch_layers(nlp, docs), strict=True):
        expected = 1.5 * torch.einsum("l,ltw->tw", weights, layers)
        np.testing.assert_allclose(found, expected.detach(), atol=1e-5)


@pytest.mark.parametrize("held", ["token", "layer2", "top"])
def test_one_layer_is_that_layer(bert: Path, held: str) -> None:
    nlp = pipeline(bert, listener(mix={"@layers": "spacy-elmo.ScalarMix.v1", "weights": held}))
    docs = [nlp.get_pipe("transformer")(example.predicted) for example in examples(nlp)]
    index = {"token": 0, "layer2": 2, "top": 3}[held]
    for found, layers in zip(node(nlp).predict(docs), torch_layers(nlp, docs), strict=True):
        np.testing.assert_allclose(found, layers[index].detach(), atol=1e-5)


def gradients(nlp: Language) -> dict[str, torch.Tensor]:
    found = {}
    for name, parameter in torch_model(nlp).named_parameters():
        if parameter.grad is not None:
            found[name] = parameter.grad.clone()
    return found


@pytest.fixture
def no_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients stay where they are: Transformer.update would step with them."""
    monkeypatch.setattr("spacy_transformers.layers.hf_shim.HFShim.finish_update", lambda *_: None)


ORDERS: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "alone": lambda mix: [mix],
    "twice": lambda mix: [mix, mix],
    "before a plain listener": lambda mix: [mix, PLAIN],
    "after a plain listener": lambda mix: [PLAIN, mix],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_gradient_reaches_every_layer_as_in_torch(
    bert: Path, order: str, factor: float, no_optimizer: None
) -> None:
    """Of the loss sum(output * direction) of each listener."""
    nlp = pipeline(bert, *ORDERS[order](listener(grad_factor=factor)))
    batch = examples(nlp)
    docs = [example.predicted for example in batch]
    nlp.get_pipe("transformer").update(batch, sgd=None)
    rng = np.random.default_rng(0)
    expected = torch.zeros(())
    layers = torch_layers(nlp, docs)
    for name in nlp.pipe_names[2:]:
        pipe: Any = nlp.get_pipe(name)
        tok2vec = pipe.model.get_ref("tok2vec")
        plain = tok2vec.name != "transformer_mix_listener"
        if not plain:
            scalars = rng.normal(size=4).astype("f")
            tok2vec.get_ref("mix").set_param("scalars", scalars)
            weights = torch.softmax(torch.tensor(scalars), 0)
        outputs, backprop = tok2vec(docs, is_train=True)
        directions = [rng.normal(size=Y.shape).astype("f") for Y in outputs]
        for X, direction in zip(layers, directions, strict=True):
            mixed = X[-1] if plain else factor * torch.einsum("l,ltw->tw", weights, X)
            expected = expected + (mixed * torch.tensor(direction)).sum()
        backprop(directions)
    found = gradients(nlp)
    torch_model(nlp).zero_grad()
    expected.backward()
    wanted = gradients(nlp)
    assert len(wanted) > 40
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-4, rtol=1e-3, msg=name)


def test_mix_gradient_by_finite_differences(bert: Path, no_optimizer: None) -> None:
    nlp = pipeline(bert, listener(mix={"@layers": "spacy-elmo.ScalarMix.v1"}))
    batch = examples(nlp)
    docs = [example.predicted for example in batch]
    mix = node(nlp).get_ref("mix")
    rng = np.random.default_rng(1)
    mix.set_param("scalars", rng.normal(size=4).astype("f"))
    nlp.get_pipe("transformer").update(batch, sgd=None)
    outputs, backprop = node(nlp)(docs, is_train=True)
    directions = [rng.normal(size=Y.shape).astype("f") for Y in outputs]
    backprop(directions)
    list(nlp.get_pipe("transformer").pipe(docs))

    def loss() -> float:
        found = node(nlp).predict(docs)
        return sum(float((Y * d).sum()) for Y, d in zip(found, directions, strict=True))

    for name in ("scalars", "gamma"):
        start = mix.get_param(name).copy()
        for i, gradient in enumerate(mix.get_grad(name)):
            step = np.zeros_like(start)
            step[i] = 1e-2
            mix.set_param(name, start + step)
            above = loss()
            mix.set_param(name, start - step)
            assert (above - loss()) / 2e-2 == pytest.approx(gradient, rel=1e-2, abs=1e-2)
            mix.set_param(name, start)


def train(nlp: Language, steps: int = 2, **settings: Any) -> None:
    optimizer = nlp.resume_training()
    for _ in range(steps):
        nlp.update(examples(nlp), sgd=optimizer, **settings)


def weights(nlp: Language) -> Iterator[torch.Tensor]:
    return (parameter.detach().clone() for parameter in torch_model(nlp).parameters())


def test_training_changes_mix_and_transformer(bert: Path) -> None:
    nlp = pipeline(bert, listener())
    before = list(weights(nlp))
    train(nlp)
    assert np.abs(node(nlp).get_ref("mix").get_param("scalars")).max() > 0
    changed = [not torch.equal(a, b) for a, b in zip(before, weights(nlp), strict=True)]
    assert all(changed[:-2])  # but for the pooler, which nobody reads


@pytest.mark.parametrize("annotates", [["sentencizer", "transformer"], ["sentencizer"]])
def test_frozen_transformer_stays(bert: Path, annotates: list[str]) -> None:
    nlp = pipeline(bert, listener())
    before = list(weights(nlp))
    train(nlp, exclude=["transformer"], annotates=annotates)
    assert np.abs(node(nlp).get_ref("mix").get_param("scalars")).max() > 0
    assert all(torch.equal(a, b) for a, b in zip(before, weights(nlp), strict=True))
    assert not gradients(nlp)


@pytest.mark.parametrize("place", ["input", "output"])
def test_in_elmo_tok2vec(bert: Path, place: str) -> None:
    tok2vec = {
        "@architectures": "spacy-elmo.ElmoTok2Vec.v1",
        place: listener(),
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 8,
            "attrs": ["NORM"],
            "rows": [50],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": 8,
            "depth": 1,
            "window_size": 1,
            "maxout_pieces": 2,
        },
    }
    nlp = pipeline(bert, tok2vec)
    train(nlp)
    assert np.abs(node(nlp).get_ref("mix").get_param("scalars")).max() > 0
    assert nlp("Ana likes Oslo .")[0].tag_


def test_saved_pipeline_is_the_same(bert: Path, tmp_path: Path) -> None:
    nlp = pipeline(bert, listener())
    train(nlp)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    docs, again = list(nlp.pipe(TEXTS)), list(loaded.pipe(TEXTS))
    for one, other in zip(node(nlp).predict(docs), node(loaded).predict(again), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    train(loaded, 1)


def test_empty_docs_and_whitespace(bert: Path) -> None:
    nlp = pipeline(bert, listener())
    docs = list(nlp.pipe(["", "Ana  likes\n\nOslo", ""]))
    shapes = [Y.shape for Y in node(nlp).predict(docs)]
    assert shapes == [(0, 8), (len(docs[1]), 8), (0, 8)]
    Y = node(nlp).predict(docs)[1]
    assert np.isfinite(Y).all()
    spaces = [token.i for token in docs[1] if token.is_space]
    assert spaces and not Y[spaces].any()


def test_several_processes(bert: Path) -> None:
    nlp = pipeline(bert, listener())
    one = [[token.tag_ for token in doc] for doc in nlp.pipe(TEXTS)]
    two = [[token.tag_ for token in doc] for doc in nlp.pipe(TEXTS, n_process=2, batch_size=1)]
    assert one == two


def test_layers_of_a_doc_are_torchs(bert: Path) -> None:
    """What the analyses read."""
    nlp = pipeline(bert, listener())
    docs = list(nlp.pipe(TEXTS))
    model = nlp.get_pipe("transformer").model  # type: ignore[attr-defined]
    for doc, expected in zip(docs, torch_layers(nlp, docs), strict=True):
        np.testing.assert_allclose(doc_layers(model, doc._.trf_data), expected.detach(), atol=1e-5)


def test_the_config_names_no_transformer_to_fetch(tmp_path: Path) -> None:
    from spacy.training.initialize import init_nlp

    assert load_config(CONFIG)["paths"]["transformer"] is None
    with pytest.raises(ConfigValidationError, match=r"TransformerModel\.v3") as caught:
        init_nlp(load_config(CONFIG, overrides={"paths.train": "x", "paths.dev": "x"}))
    assert "name" in str(caught.value)


def test_reader_gives_docs_of_all_lengths_in_order(bert: Path) -> None:
    """It runs Docs of a length together."""
    nlp = pipeline(bert, listener())
    texts = [" ".join(["the dog likes Oslo ."] * n) for n in (3, 1, 9, 2, 1)]
    nlp.get_pipe("transformer").cfg["max_batch_items"] = 20  # type: ignore[attr-defined]
    docs = [nlp.make_doc(text) for text in texts]
    for doc in docs:
        for token in doc:
            token.is_sent_start = token.i == 0
    read = list(layer_reader(nlp).read(docs))
    for text, (doc, layers), expected in zip(texts, read, torch_layers(nlp, docs), strict=True):
        assert doc.text == text
        np.testing.assert_allclose(layers, expected.detach(), atol=1e-5)


def test_without_a_transformer_it_says_so() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=tagger(listener()))
    with pytest.raises(ValueError, match="found no such `transformer` component"):
        nlp.initialize(lambda: examples(nlp))


def test_mixed_precision_is_refused(bert: Path) -> None:
    nlp = spacy.blank("en")
    model = {**transformer_model(bert), "mixed_precision": True}
    nlp.add_pipe("transformer", config={"model": model})
    with pytest.raises(ValueError, match="mixed_precision = true, expected false"):
        nlp.add_pipe("tagger", config=tagger(listener()))


def test_replace_listeners_is_refused(bert: Path) -> None:
    nlp = pipeline(bert, listener(), PLAIN)
    with pytest.raises(ValueError, match="cannot replace a TransformerMixListener"):
        nlp.replace_listeners("transformer", "tagger0", ["model.tok2vec"])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> None:
        raise ImportError(f"No module named '{module}'")

    monkeypatch.setattr("spacy_elmo.extras.import_module", fail)
    make = registry.architectures.get("spacy-elmo.TransformerMixListener.v1")
    with pytest.raises(ImportError, match=r"pip install \"spacy-elmo\[transformers\]\""):
        make(mix=ScalarMix())


def test_config_trains_as_it_stands(bert: Path, tmp_path: Path) -> None:
    from spacy.tokens import DocBin
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train as train_loop

    vocab = spacy.blank("en").vocab
    doc = Doc(vocab, words=["Ana", "likes", "Oslo", "."])
    doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, 2, 3, "PLACE")]
    DocBin(docs=[doc] * 10).to_disk(tmp_path / "corpus.spacy")
    overrides = {
        "paths.train": str(tmp_path / "corpus.spacy"),
        "paths.dev": str(tmp_path / "corpus.spacy"),
        "paths.transformer": str(bert),
        "training.max_steps": 2,
        "training.eval_frequency": 1,
    }
    nlp = init_nlp(load_config(CONFIG, overrides=overrides))
    train_loop(nlp, tmp_path)
    loaded = spacy.load(tmp_path / "model-last")
    assert loaded("Eva likes Rome.").to_json() == nlp("Eva likes Rome.").to_json()
