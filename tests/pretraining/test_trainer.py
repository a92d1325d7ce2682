import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from confection import Config

from spacy_elmo.pretraining.checkpoint import CHECKPOINT, read_checkpoint, read_language_model
from spacy_elmo.pretraining.config import resolve
from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.evaluation import evaluate
from spacy_elmo.pretraining.setup import make_trainer


def train(config: Config, output: Path, *, stop_after: int | None = None) -> list:
    trainer = make_trainer(resolve(config), output)
    seen = []
    for progress in trainer.run():
        seen.append(progress)
        if progress.step == stop_after:
            trainer.stop()
    return seen


def test_interrupted_and_resumed_equals_uninterrupted(config: Config, tmp_path: Path) -> None:
    whole = train(config, tmp_path / "whole")
    parts = train(config, tmp_path / "parts", stop_after=3)
    assert parts[-1].step == 3
    # A disturbance that a fresh process would bring: other random states.
    torch.manual_seed(99)
    parts += train(config, tmp_path / "parts", stop_after=7)
    parts += train(config, tmp_path / "parts")
    assert parts == whole
    tensors, state = read_checkpoint(tmp_path / "whole" / CHECKPOINT)
    others, other_state = read_checkpoint(tmp_path / "parts" / CHECKPOINT)
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[key], others[key]) for key in tensors)
    assert state == other_state


def test_a_kill_loses_the_steps_since_the_checkpoint(config: Config, tmp_path: Path) -> None:
    whole = train(config, tmp_path / "whole")
    trainer = make_trainer(resolve(config), tmp_path / "killed")
    for progress in trainer.run():
        if progress.step == 6:
            break
    del trainer
    rest = train(config, tmp_path / "killed")
    assert rest == whole[4:]


def test_learns_and_keeps_best_and_last(config: Config, tmp_path: Path) -> None:
    config["pretraining"]["max_steps"] = 60
    config["pretraining"]["optimizer"]["learn_rate"] = 0.01
    seen = train(config, tmp_path)
    evaluated = [progress for progress in seen if progress.perplexity]
    assert [progress.step for progress in evaluated] == list(range(5, 61, 5))
    best = min(progress.perplexity.mean for progress in evaluated)
    assert best < 0.7 * evaluated[0].perplexity.mean
    run = resolve(config)
    for directory, expected in ((tmp_path, best), (tmp_path / "last", seen[-1].perplexity.mean)):
        model, vocabulary = read_language_model(directory)
        found = evaluate(model, run.dev, vocabulary)
        assert found.mean == pytest.approx(expected, rel=1e-5)
    history = json.loads((tmp_path / "meta.json").read_text())["history"]
    assert min(entry["mean"] for entry in history) == pytest.approx(best)


def test_an_epoch_counts_every_word_once(config: Config, tmp_path: Path) -> None:
    trainer = make_trainer(resolve(config), tmp_path)
    last = list(trainer.run())[-1]
    assert last.words == trainer.words
    assert last.epoch == last.words / trainer.counts.tokens
    positions = 12 * 6 * 5
    assert positions * 0.6 < last.words < positions


def test_full_softmax_and_every_optimizer(config: Config, tmp_path: Path) -> None:
    config["pretraining"]["n_samples"] = 0
    config["pretraining"]["max_steps"] = 2
    for name in ("Adam", "AdamW", "Adagrad"):
        config["pretraining"]["optimizer"]["@optimizers"] = f"spacy-elmo.{name}.v1"
        whole = train(config, tmp_path / name)
        assert train(config, tmp_path / f"{name} in parts", stop_after=1) == whole[:1]
        assert train(config, tmp_path / f"{name} in parts") == whole[1:]


def test_bfloat16_products_stay_close(config: Config, tmp_path: Path) -> None:
    plain = train(config, tmp_path / "float32")
    config["system"]["precision"] = "bfloat16"
    mixed = train(config, tmp_path / "bfloat16")
    for a, b in zip(plain, mixed, strict=True):
        assert b.loss == pytest.approx(a.loss, abs=0.02)


def test_another_model_is_not_resumed(config: Config, tmp_path: Path) -> None:
    train(config, tmp_path, stop_after=1)
    config["pretraining"]["n_streams"] = 7
    with pytest.raises(PretrainingError, match=r"pretraining\.n_streams = 6.*says 7"):
        make_trainer(resolve(config), tmp_path)


def test_a_damaged_checkpoint_is_named(config: Config, tmp_path: Path) -> None:
    train(config, tmp_path, stop_after=1)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(PretrainingError, match=r"checkpoint\.safetensors cannot be read"):
        make_trainer(resolve(config), tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_the_command_after_a_step(
    config: Config, tmp_path: Path, number: signal.Signals
) -> None:
    config["pretraining"]["max_steps"] = 100_000
    config["pretraining"]["eval_frequency"] = 100_000
    config["pretraining"]["checkpoint_frequency"] = 100_000
    config.to_disk(tmp_path / "config.cfg")
    output = tmp_path / "run"
    command = [sys.executable, "-m", "spacy", "elmo", "pretrain", str(tmp_path / "config.cfg")]
    process = subprocess.Popen(
        [*command, "--output", str(output)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        # The bar is there once a step is done.
        while "step" not in process.stderr.read(1) + process.stderr.readline():
            time.sleep(0.01)
        process.send_signal(number)
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "the same command goes on" in " ".join(out.split())
    _, state = read_checkpoint(output / CHECKPOINT)
    assert 0 < state["step"] < 100_000


def test_other_text_is_not_resumed(config: Config, tmp_path: Path) -> None:
    train(config, tmp_path, stop_after=1)
    config["pretraining"]["vocabulary"]["min_count"] = 3
    with pytest.raises(PretrainingError, match=r"began on other text, words or weights"):
        make_trainer(resolve(config), tmp_path)
