from pathlib import Path

import pytest
import torch
from confection import Config, ConfigValidationError
from spacy.util import load_config

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.pretraining.config import resolve
from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.optimizers import LearnRate

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("paths", "raw_text"), None, r"corpora\.train\.paths is not set.*--paths\.raw_text"),
        (("paths", "dev_text"), None, r"corpora\.dev\.paths is not set.*--paths\.dev_text"),
        (("trainig",), {}, "the config has the unknown key 'trainig'"),
        (("corpora", "test"), {}, r"\[corpora\] has the unknown key 'test'"),
        (("system", "sead"), 1, "system has the unknown key 'sead', expected only device"),
        (("system", "seed"), "one", r"system\.seed is 'one', expected int"),
        (("system", "precision"), "half", r"system\.precision is 'half', expected one of float32"),
        (("bilm", "cell_dims"), 1, "the section \\[bilm\\] has the unknown key 'cell_dims'"),
        (("bilm", "cell_dim"), 5, "projection_dim is 12, expected at most the 5 cells"),
        (("pretraining", "batch_size"), 9, "pretraining has the unknown key 'batch_size'"),
        (("pretraining", "max_steps"), 0, r"pretraining\.max_steps is 0, expected at least 1"),
        (("pretraining", "n_streams"), True, r"pretraining\.n_streams is True, expected int"),
        (("pretraining", "dropout"), 1.0, r"pretraining\.dropout is 1.0, expected less than 1"),
        (("pretraining", "reset"), "word", r"pretraining\.reset is 'word', expected one of"),
        (("pretraining", "vocabulary", "floor"), 3, r"vocabulary has the unknown key 'floor'"),
        (("pretraining", "optimizer"), None, r"lacks the section \[pretraining\.optimizer\]"),
        (
            ("pretraining", "optimizer"),
            {"@optimizers": "Adam.v1", "learn_rate": 0.1},
            r"pretraining\.optimizer gave Optimizer, expected Optimization",
        ),
    ],
)
def test_what_is_wrong_is_named(config: Config, path: tuple, value: object, message: str) -> None:
    place = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(PretrainingError, match=message):
        resolve(config)


def test_a_lacking_section_and_a_lacking_key(config: Config) -> None:
    del config["pretraining"]["max_steps"]
    config["pretraining"]["optimizer"]["learn_rate"]["total_steps"] = 9
    with pytest.raises(PretrainingError, match=r"pretraining lacks max_steps"):
        resolve(config)
    del config["system"]
    with pytest.raises(PretrainingError, match="lacks 'system'"):
        resolve(config)


def test_arguments_of_registered_functions_are_checked(config: Config) -> None:
    config["pretraining"]["optimizer"]["momentum"] = 0.9
    with pytest.raises(ConfigValidationError, match="momentum"):
        resolve(config)


def test_a_device_that_is_not_there(config: Config) -> None:
    config["system"]["device"] = "cuda:77"
    with pytest.raises(PretrainingError, match=r"system\.device is 'cuda:77', which PyTorch"):
        resolve(config).system.torch_device()


@pytest.mark.parametrize("name", ["pretrain_en_elmo_sm", "finetune_bilm"])
def test_the_configs_of_this_repository_resolve(name: str, text_files: Path) -> None:
    overrides = {
        "paths.raw_text": str(text_files / "train-*.txt"),
        "paths.dev_text": str(text_files / "dev.txt"),
    }
    config = load_config(CONFIGS / f"{name}.cfg", overrides=overrides, interpolate=False)
    run = resolve(config)
    rate = LearnRate(run.optimization.learn_rate)
    assert rate.at(0) < rate.at(100)
    if run.bilm is not None:
        with torch.device("meta"):
            n = sum(weight.numel() for weight in BiLM(run.bilm).parameters())
        assert 2_900_000 < n < 3_100_000


def test_a_rate_starts_anywhere_and_constants_are_rates(config: Config) -> None:
    whole, later = (LearnRate(resolve(config).optimization.learn_rate) for _ in range(2))
    rates = [whole.at(step) for step in range(12)]
    assert rates[0] == 0
    assert max(rates) == rates[3] == 0.01
    assert later.at(7) == rates[7]
    assert LearnRate(0.5).at(3) == 0.5
