"""The progress bar of `spacy elmo pretrain` (`spacy-elmo.ProgressBar.v1`)."""

import json
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..pretraining.trainer import Progress

# Steps over which the shown loss and speed are averaged.
RECENT = 100


def progress_bar(log_file: str | None = None) -> Callable[[int], "Callable[[Progress], None]"]:
    """Show words/s, loss, perplexity and the time left on standard error.

    log_file: Add a line of JSON for each evaluation, and for every hundredth step, to this file.
    """

    def setup(first_step: int) -> "Callable[[Progress], None]":
        from tqdm import tqdm

        bar: tqdm | None = None
        recent: deque[tuple[float, int, float]] = deque(maxlen=RECENT)
        held_out = ""

        def log(progress: "Progress") -> None:
            nonlocal bar, held_out
            if bar is None:
                bar = tqdm(
                    total=progress.max_steps,
                    initial=first_step,
                    unit="step",
                    file=sys.stderr,
                    dynamic_ncols=True,
                    mininterval=1.0,
                )
            recent.append((time.monotonic(), progress.words, progress.loss))
            loss = sum(entry[2] for entry in recent) / len(recent)
            seconds = recent[-1][0] - recent[0][0]
            speed = (recent[-1][1] - recent[0][1]) / seconds if seconds else 0.0
            if progress.perplexity is not None:
                held_out = f", held-out ppl {progress.perplexity.mean:.2f}"
            bar.set_postfix_str(
                f"epoch {progress.epoch:.2f}, {speed:,.0f} words/s, loss {loss:.3f}, "
                f"ppl {math.exp(min(loss, 50)):.1f}{held_out}",
                refresh=False,
            )
            bar.update(1)
            if progress.perplexity is not None:
                p = progress.perplexity
                bar.write(
                    f"Step {progress.step}: held-out perplexity {p.forward:.2f} forward, "
                    f"{p.backward:.2f} backward, {p.mean:.2f} mean"
                    + (" (best so far)" if progress.is_best else ""),
                    file=sys.stderr,
                )
            if log_file and (progress.perplexity is not None or progress.step % RECENT == 0):
                entry = {
                    "step": progress.step,
                    "words": progress.words,
                    "epoch": progress.epoch,
                    "loss": loss,
                    "learn_rate": progress.learn_rate,
                    "words_per_second": speed,
                    "perplexity": progress.perplexity and progress.perplexity.to_dict(),
                }
                with Path(log_file).open("a", encoding="utf8") as file:
                    file.write(json.dumps(entry) + "\n")
            if progress.step == progress.max_steps:
                bar.close()

        return log

    return setup
