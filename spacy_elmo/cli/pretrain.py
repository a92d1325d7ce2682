"""`python -m spacy elmo pretrain`: raw text -> biLM."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from confection import Config
from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import elmo_cli

if TYPE_CHECKING:
    from ..pretraining.config import Run
    from ..pretraining.trainer import Trainer


@elmo_cli.command(
    "pretrain",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def pretrain_cli(
    ctx: typer.Context,
    config_path: Path = Arg(
        ..., help="Config with the sections [paths], [system], [corpora], [bilm], [pretraining]."
    ),
    output: Path = Opt(
        ...,
        "--output",
        "-o",
        help="Directory of the biLM. Where it holds a run's checkpoint, that run goes on.",
    ),
) -> None:
    """Pretrain a biLM on raw text.

    Config values are overridden as in `spacy train`: --paths.raw_text 'corpus/*.txt.xz'
    --paths.dev_text dev.txt.xz --pretraining.max_steps 1000.

    The directory holds the best model so far by held-out perplexity (`name = DIR` takes it), under
    `last` the last one, and a checkpoint. Ctrl-C or SIGTERM finish the step, write the checkpoint and
    end; the same command goes on from there, as if it had never stopped.

    With pretraining.init_from an existing biLM is trained further, for instance on the text of a domain.
    Several processes train together: torchrun --nproc-per-node 2 -m spacy elmo pretrain ...
    """
    from spacy.cli._util import parse_config_overrides, show_validation_error
    from spacy.util import load_config

    from ..bilm.errors import BiLMError
    from ..pretraining.config import resolve
    from ..pretraining.errors import PretrainingError
    from ..pretraining.ranks import Ranks
    from ..pretraining.setup import make_trainer

    if not config_path.is_file():
        msg.fail(f"No config at {config_path}: expected a file such as config.cfg.", exits=1)
    overrides = parse_config_overrides(ctx.args)
    try:
        with show_validation_error(config_path):
            config = load_config(config_path, overrides=overrides, interpolate=False)
            run = resolve(config)
        with Ranks.joined() as ranks:
            trainer = make_trainer(run, output, ranks)
            _stop_on_signals(trainer)
            if ranks.is_first:
                _run_and_report(trainer, run, config)
            else:
                for _ in trainer.run():
                    pass
    except (BiLMError, PretrainingError) as error:
        msg.fail(str(error), exits=1)
    if ranks.is_first:
        _conclude(trainer)


def _stop_on_signals(trainer: Trainer) -> None:
    def stop(number: int, _: object) -> None:
        trainer.stop()
        # A second one ends the process at once; the last checkpoint is whole.
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _run_and_report(trainer: Trainer, run: Run, config: Config) -> None:
    counts = trainer.counts
    msg.info(
        f"{counts.tokens:,} tokens in {counts.sentences:,} sentences; the output layer knows "
        f"{len(trainer.vocabulary):,} words, {counts.coverage:.2%} of the tokens"
    )
    config.to_disk(trainer.output / "config.cfg")
    if trainer.step:
        msg.info(f"Going on after step {trainer.step:,}")
    log = run.logger(trainer.step)
    for progress in trainer.run():
        log(progress)


def _conclude(trainer: Trainer) -> None:
    if not trainer.finished:
        msg.warn(f"Stopped after step {trainer.step:,}: the same command goes on from there")
        raise typer.Exit(130)
    first, best = trainer.history[0], trainer.best
    assert best is not None
    before = "" if first["step"] else f", {first['mean']:.2f} before training"
    msg.good(
        f"Held-out perplexity {best['mean']:.2f} at step {best['step']:,}{before}: {trainer.output}"
    )
