from pathlib import Path

import pytest
import torch
from confection import Config

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.formats import native
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.pretraining.adaptation import extend
from spacy_elmo.pretraining.checkpoint import read_language_model
from spacy_elmo.pretraining.config import resolve
from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.evaluation import evaluate
from spacy_elmo.pretraining.setup import make_trainer
from spacy_elmo.pretraining.softmax import OutputLayer
from spacy_elmo.pretraining.vocabulary import Vocabulary


def make_bilm(config: Config, directory: Path) -> BiLM:
    torch.manual_seed(3)
    bilm = BiLM(BiLMConfig.from_dict(config["bilm"], "test"))
    native.write(bilm.config, bilm.state_dict(), directory)
    return bilm


def adapt(config: Config, start: Path, **values: object) -> None:
    config["bilm"] = {}
    config["pretraining"].update({"init_from": str(start), **values})


def test_the_extended_layer_keeps_known_words_and_shares_the_unknown_ones_mass() -> None:
    old, new = Vocabulary(["a", "b", "c"]), Vocabulary(["x", "c", "a", "y"])
    layer = OutputLayer(len(old), 4)
    torch.nn.init.normal_(layer.bias)
    extended = extend(layer, old, new)
    hidden = torch.randn(5, 4)
    before = (hidden @ layer.weight.t() + layer.bias).exp()
    after = (hidden @ extended.weight.t() + extended.bias).exp()
    place = new.words.index
    for word in ("<S>", "</S>", "a", "c"):
        torch.testing.assert_close(after[:, place(word)], before[:, old.words.index(word)])
    torch.testing.assert_close(
        after[:, [place("<UNK>"), place("x"), place("y")]].sum(dim=1),
        before[:, old.words.index("<UNK>")],
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_without_an_output_layer_the_bilm_is_frozen_first(
    config: Config, tmp_path: Path, precision: str
) -> None:
    config["system"]["precision"] = precision
    bilm = make_bilm(config, tmp_path / "start")
    adapt(config, tmp_path / "start", frozen_steps=5, max_steps=10)
    trainer = make_trainer(resolve(config), tmp_path / "run")
    before = {key: value.clone() for key, value in bilm.state_dict().items()}
    for progress in trainer.run():
        same = all(
            torch.equal(before[key], value)
            for key, value in trainer.model.bilm.state_dict().items()
        )
        assert same == (progress.step <= 5)
    losses = trainer.history
    assert losses[-1]["mean"] < losses[0]["mean"]


def test_a_frozen_start_resumes_too(config: Config, tmp_path: Path) -> None:
    make_bilm(config, tmp_path / "start")
    adapt(config, tmp_path / "start", frozen_steps=5, max_steps=8)
    whole = list(make_trainer(resolve(config), tmp_path / "whole").run())
    parts = []
    for stop in (3, 6, 8):
        trainer = make_trainer(resolve(config), tmp_path / "parts")
        for progress in trainer.run():
            parts.append(progress)
            if progress.step == stop:
                trainer.stop()
    assert parts == whole


def test_a_rate_of_its_own(config: Config, tmp_path: Path) -> None:
    bilm = make_bilm(config, tmp_path / "start")
    adapt(config, tmp_path / "start", bilm_rate=0.0, max_steps=3)
    trainer = make_trainer(resolve(config), tmp_path / "run")
    output = trainer.model.output.weight.detach().clone()
    list(trainer.run())
    after = trainer.model.bilm.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in bilm.state_dict().items())
    assert not torch.equal(output, trainer.model.output.weight)


def test_goes_on_from_a_model_with_its_output_layer(config: Config, tmp_path: Path) -> None:
    config["pretraining"]["max_steps"] = 40
    config["pretraining"]["vocabulary"]["max_size"] = 40
    list(make_trainer(resolve(config), tmp_path / "general").run())
    model, vocabulary = read_language_model(tmp_path / "general")
    assert len(vocabulary) == 40
    run = resolve(config)
    general = evaluate(model, run.dev, vocabulary)
    config["pretraining"]["vocabulary"]["max_size"] = 60
    adapt(config, tmp_path / "general", max_steps=1)
    config["pretraining"]["optimizer"]["learn_rate"] = 1e-9
    trainer = make_trainer(resolve(config), tmp_path / "adapted")
    assert len(trainer.vocabulary) == 60
    assert set(vocabulary.words) <= set(trainer.vocabulary.words)
    (progress,) = trainer.run()
    found = progress.perplexity
    assert found is not None
    assert found.unknown < general.unknown
    # Known words are predicted as before; what was one class is shared by itself and 20 words.
    share = general.unknown / (general.tokens + general.sentences)
    assert found.mean == pytest.approx(general.mean * 21**share, rel=1e-4)
    assert [entry["step"] for entry in trainer.history] == [0, 1]
    assert trainer.history[0]["mean"] == pytest.approx(found.mean, rel=1e-4)


def test_patience_ends_the_run(config: Config, tmp_path: Path) -> None:
    config["pretraining"].update({"max_steps": 50, "patience": 10})
    config["pretraining"]["optimizer"]["learn_rate"] = 0.0
    config["pretraining"]["eval_frequency"] = 5
    trainer = make_trainer(resolve(config), tmp_path)
    assert [progress.step for progress in trainer.run()][-1] == 15
    assert trainer.finished
    assert list(make_trainer(resolve(config), tmp_path).run()) == []


def test_sizes_that_contradict_are_refused(config: Config, tmp_path: Path) -> None:
    make_bilm(config, tmp_path / "start")
    config["pretraining"]["init_from"] = str(tmp_path / "start")
    config["bilm"]["cell_dim"] = 25
    with pytest.raises(PretrainingError, match=r"bilm\.cell_dim is 25, but .* has 24: leave"):
        make_trainer(resolve(config), tmp_path / "run")


def test_the_adapted_model_loads(config: Config, tmp_path: Path) -> None:
    make_bilm(config, tmp_path / "start")
    adapt(config, tmp_path / "start", max_steps=2)
    trainer = make_trainer(resolve(config), tmp_path / "run")
    list(trainer.run())
    assert load_bilm(tmp_path / "run").config == trainer.model.bilm.config
