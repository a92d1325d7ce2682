"""Going on from what others trained: bilm-tf's checkpoint, published HDF5, ELMoForManyLangs."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from confection import Config
from references import HERE, SENTENCES, unpack_bilm_tf

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.loading import load_bilm
from spacy_elmo.pretraining.checkpoint import read_language_model
from spacy_elmo.pretraining.config import resolve
from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.evaluation import evaluate
from spacy_elmo.pretraining.objective import LanguageModel
from spacy_elmo.pretraining.setup import make_trainer
from spacy_elmo.pretraining.softmax import OutputLayer
from spacy_elmo.pretraining.trainer import Trainer

CHECKPOINT = HERE / "bilm_tf_checkpoint"
# Of bilm-tf's own program with that checkpoint, see make_losses.py.
LOSSES = json.loads((HERE / "bilm_tf_losses.json").read_text(encoding="utf8"))


def start(config: Config, init_from: Path, output: Path, **values: object) -> Trainer:
    config["bilm"] = {}
    config["pretraining"].update({"init_from": str(init_from), **values})
    return make_trainer(resolve(config), output)


@pytest.mark.parametrize("converted", [False, True])
def test_a_checkpoint_loses_what_it_lost_in_bilm_tf(tmp_path: Path, converted: bool) -> None:
    place = CHECKPOINT
    if converted:
        from spacy_elmo.bilm.conversion import convert
        from spacy_elmo.bilm.loading import find

        place = tmp_path / "native"
        convert(find(CHECKPOINT), place, "native")
    model, vocabulary = read_language_model(place)
    found = evaluate(model, [LOSSES["text"]], vocabulary)
    assert found.tokens + found.sentences == LOSSES["predictions"]
    assert math.log(found.forward) == pytest.approx(LOSSES["forward"], abs=1e-5)
    assert math.log(found.backward) == pytest.approx(LOSSES["backward"], abs=1e-5)


def test_training_starts_where_bilm_tf_stopped(config: Config, tmp_path: Path) -> None:
    dev = tmp_path / "dev.txt"
    dev.write_text("\n".join(map(" ".join, LOSSES["text"])) + "\n", encoding="utf8")
    # Words of the checkpoint only, so that its output layer stays what it is.
    (tmp_path / "train.txt").write_text("the play of a said .\n" * 40)
    config["paths"].update(raw_text=str(tmp_path / "train.txt"), dev_text=str(dev))
    config["pretraining"]["n_samples"] = 0
    trainer = start(config, CHECKPOINT, tmp_path / "run", max_steps=2)
    assert set(trainer.vocabulary.words) == set(
        (CHECKPOINT / "vocab.txt").read_text().split("\n")[:-1]
    )
    list(trainer.run())
    before = trainer.history[0]
    assert before["step"] == 0
    assert math.log(before["forward"]) == pytest.approx(LOSSES["forward"], abs=1e-5)
    assert math.log(before["backward"]) == pytest.approx(LOSSES["backward"], abs=1e-5)
    assert load_bilm(tmp_path / "run").config == load_bilm(CHECKPOINT).config


def test_published_weights_start_with_a_fresh_output_layer(config: Config, tmp_path: Path) -> None:
    unpack_bilm_tf("published", tmp_path / "hdf5")
    trainer = start(config, tmp_path / "hdf5", tmp_path / "run", max_steps=6, frozen_steps=3)
    before = load_bilm(tmp_path / "hdf5").state_dict()
    list(trainer.run())
    assert len(trainer.vocabulary) == 60
    assert trainer.history[-1]["mean"] < trainer.history[0]["mean"]
    after = trainer.model.bilm.state_dict()
    assert any(not torch.equal(after[key], before[key]) for key in before)
    assert load_bilm(tmp_path / "run" / "last").config == load_bilm(tmp_path / "hdf5").config


def test_many_langs_is_read_with_its_own_spelling(config: Config, tmp_path: Path) -> None:
    place = HERE / "many_langs_published"
    bilm = load_bilm(place)
    model = LanguageModel(bilm, OutputLayer(3, bilm.config.projection_dim)).eval()
    words = list(dict.fromkeys(word for sentence in SENTENCES for word in sentence))
    with torch.no_grad():
        ours = model.token_vectors(words)[2:].numpy()
    theirs = Embedder(bilm)([[word] for word in words])
    np.testing.assert_allclose(ours, np.stack([t[0, 0, :6] for t in theirs]), rtol=0, atol=1e-5)
    for steps in (3, 6):
        trainer = start(config, place, tmp_path / "run", max_steps=steps)
        list(trainer.run())
    assert trainer.history[-1]["mean"] < trainer.history[0]["mean"]
    assert load_bilm(tmp_path / "run").config == bilm.config


def test_an_output_layer_needs_its_words(config: Config, tmp_path: Path) -> None:
    place = Path(shutil.copytree(CHECKPOINT, tmp_path / "checkpoint"))
    (place / "vocab.txt").rename(place / "words.txt")
    expected = r"holds an output layer, but not its words: put .* beside it as vocab\.txt"
    with pytest.raises(PretrainingError, match=expected):
        start(config, place, tmp_path / "run")
    (place / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    with pytest.raises(PretrainingError, match=r"is not of this biLM and the 4 words of .*vocab"):
        start(config, place, tmp_path / "run")


def test_sizes_in_the_config_are_compared_with_what_spells_otherwise(
    config: Config, tmp_path: Path
) -> None:
    config["pretraining"]["init_from"] = str(HERE / "many_langs_published")
    with pytest.raises(
        PretrainingError, match=r"bilm\.\w+ is .*: leave the section \[bilm\] empty"
    ):
        make_trainer(resolve(config), tmp_path / "run")
