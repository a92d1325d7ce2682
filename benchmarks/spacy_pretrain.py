"""`spacy pretrain` (characters objective) on a biLM's text, for as much processor time as it had.

    python benchmarks/spacy_pretrain.py --minutes 230 --output DIR \\
        --text '../shared/data/pretrain-en/train-[0b]*.txt.xz'
    python benchmarks/tasks.py run spacy-pretrain --data ../shared/data --pretrained DIR/model-last.bin

The tok2vec is that of spaCy's efficiency configs, which all tasks of tasks.py share. Interrupted, the
same command goes on from the weights, with a fresh optimizer, for what is left of the time.
"""

import contextlib
import json
import random
import resource
import signal
import time
from glob import glob
from itertools import chain
from pathlib import Path

import typer
from spacy.cli.init_config import init_config
from spacy.training.pretrain import pretrain
from thinc.api import Config
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.text_files import numbered_lines

LAST = "model-last.bin"
# What a run has read so far: "words" and processor "seconds".
USED = "used.json"


def main(
    text: str = typer.Option(..., help="Pattern of the texts, one tokenised sentence a line"),
    minutes: float = typer.Option(..., help="Processor time, all tries together"),
    output: Path = typer.Option(..., help="Where the weights go"),
    pipeline: str = typer.Option("ner", help="The pipeline whose tok2vec is trained"),
) -> None:
    files = sorted(map(Path, glob(text)))
    if not files:
        msg.fail(f"No file matches {text}", exits=1)
    output.mkdir(parents=True, exist_ok=True)
    used = json.loads((output / USED).read_text()) if (output / USED).exists() else {"seconds": 0.0}
    left = 60 * minutes - used["seconds"]
    if left <= 0:
        msg.good(f"{output / LAST} has had its {minutes:g} minutes")
        return
    config = init_config(lang="en", pipeline=[pipeline], optimize="efficiency", pretraining=True)
    config["paths"]["raw_text"] = str(_shuffled(files, output / "text.jsonl"))
    config = config.interpolate()
    resumed = output / LAST if (output / LAST).exists() else None
    before = _processor_seconds()
    try:
        _for_seconds(left, config, output, resumed)
    finally:
        used["seconds"] += _processor_seconds() - before
        (output / USED).write_text(json.dumps(used) + "\n")
    msg.good(f"{output / LAST} after {used['seconds'] / 60:.0f} minutes of processor time")


def _for_seconds(seconds: float, config: Config, output: Path, resumed: Path | None) -> None:
    """Train until so much processor time is used; spaCy writes the last weights when interrupted."""

    def stop(*_: object) -> None:
        # Past the limit the signal comes again every second, also while the weights are written.
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        raise TimeoutError

    limit = int(_processor_seconds() + seconds) + 1
    signal.signal(signal.SIGXCPU, stop)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    with contextlib.suppress(TimeoutError):
        pretrain(config, output, resumed, 0, silent=False)


def _processor_seconds() -> float:
    return time.process_time()


def _shuffled(files: list[Path], target: Path) -> Path:
    """All sentences in a random order: spaCy's reader takes them as they come."""
    if not target.exists():
        lines = chain.from_iterable(
            numbered_lines(path, ValueError) for path in tqdm(files, unit="file")
        )
        sentences = [line.strip() for _, line in lines if line.strip()]
        random.Random(0).shuffle(sentences)
        with target.open("w", encoding="utf8") as stream:
            stream.writelines(json.dumps({"text": sentence}) + "\n" for sentence in sentences)
    return target


if __name__ == "__main__":
    typer.run(main)
