"""Several processes against one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from confection import Config

from spacy_elmo import load_bilm
from spacy_elmo.pretraining.checkpoint import CHECKPOINT, read_checkpoint
from spacy_elmo.pretraining.config import resolve
from spacy_elmo.pretraining.errors import PretrainingError
from spacy_elmo.pretraining.ranks import Ranks
from spacy_elmo.pretraining.setup import make_trainer


def torchrun(config: Config, directory: Path, output: Path, processes: int) -> None:
    config.to_disk(directory / "config.cfg")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "spacy", "elmo", "pretrain"]
    command += [str(directory / "config.cfg"), "--output", str(output)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_two_processes_train_as_one(config: Config, tmp_path: Path) -> None:
    config["pretraining"]["dropout"] = 0.0
    # Without rounding the gradients' order of summation, Adam would magnify it where they are zero.
    config["pretraining"]["optimizer"] = {
        "@optimizers": "spacy-elmo.Adagrad.v1",
        "learn_rate": 0.1,
    }
    trainer = make_trainer(resolve(config), tmp_path / "one")
    list(trainer.run())
    torchrun(config, tmp_path, tmp_path / "two", 2)
    one, two = (
        json.loads((tmp_path / name / "last" / "meta.json").read_text())["history"]
        for name in ("one", "two")
    )
    for alone, together in zip(one, two, strict=True):
        assert together["words"] == alone["words"]
        assert together["mean"] == pytest.approx(alone["mean"], rel=1e-5)
    weights = load_bilm(tmp_path / "one" / "last").state_dict()
    for key, value in load_bilm(tmp_path / "two" / "last").state_dict().items():
        torch.testing.assert_close(value, weights[key], rtol=1e-4, atol=1e-5)
    # What two processes wrote, one goes on with: the streams' states stand side by side.
    tensors, _ = read_checkpoint(tmp_path / "two" / CHECKPOINT)
    alone, _ = read_checkpoint(tmp_path / "one" / CHECKPOINT)
    key = "state/backward/cell"
    torch.testing.assert_close(tensors[key], alone[key], rtol=1e-3, atol=1e-4)
    config["pretraining"]["max_steps"] = 14
    ends = []
    for name in ("one", "two"):
        trainer = make_trainer(resolve(config), tmp_path / name)
        ends.append([progress.loss for progress in trainer.run()])
    assert len(ends[0]) == 2
    assert ends[1] == pytest.approx(ends[0], rel=1e-5)


def test_streams_must_divide(config: Config, tmp_path: Path) -> None:
    class FourAlone(Ranks):
        def wait(self) -> None:
            """Nobody else is there."""

    with pytest.raises(PretrainingError, match=r"n_streams is 6, which 4 processes"):
        make_trainer(resolve(config), tmp_path, FourAlone(0, 4))
