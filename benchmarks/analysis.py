"""What the layers know, measured: `spacy elmo analyze` on the packaged biLM and on a small transformer.

    python benchmarks/analysis.py run --data ../shared/data
    python benchmarks/analysis.py table
    python benchmarks/analysis.py details

Every run (a study, a model, a seed) is one command in a process of its own, whose time and peak memory
are noted beside its result. A result is a line of a file; what stands there is not run again, so that a
stopped benchmark goes on where it was.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from minilm import MINILM, transformer_folder
from tqdm import tqdm
from wasabi import msg

RESULTS = Path(__file__).parent / "results" / "analysis.jsonl"
BILM = "en_elmo_sm"
app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)
Line = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """arguments: Of `spacy elmo analyze`, after the command and the model; what has a slash is a file of
    the data folder, or several joined by "+", which are read as one. seeds (int): Of each model.
    result: The file that --output then holds.
    """

    command: str
    arguments: tuple[str, ...]
    result: str
    seeds: int = 3
    models: tuple[str, ...] = (BILM, MINILM)


TAGS = ("gum/gum-open-train.conllu.xz", "--test", "gum/gum-open-test.conllu.xz")
SENSES = ("wsd-masc/train.jsonl.xz", "--test", "wsd-masc/test.jsonl.xz", "--task", "sense")
LONG = "pretrain-en/train-000.txt.xz+pretrain-en/train-001.txt.xz"
STUDIES = {
    "tags": Study("probe", (*TAGS, "--max-words", "10000"), "probe-tag.json"),
    "senses": Study("probe", (*SENSES, "--by-use", "--max-tokens", "100000"), "probe-sense.json"),
    # Of the transformer, an hour on one core.
    "senses, all text": Study("probe", (*SENSES, "--by-use"), "probe-sense.json", 1, (BILM,)),
    "geometry": Study("geometry", ("pretrain-en/test.txt.xz",), "geometry.json"),
    "geometry, a million tokens": Study(
        "geometry", (LONG, "--max-tokens", "1000000"), "geometry.json", 1, (BILM,)
    ),
}


# Of each study the main measures, and what the table calls them.
MEASURES = {
    "tags": {"accuracy": "tags", "selectivity": "tags, less control task"},
    "senses": {"ambiguous": "senses, nearest mean", "by_use": "senses, nearest use"},
    "senses, all text": {
        "ambiguous": "senses, nearest mean, all text",
        "by_use": "senses, nearest use, all text",
    },
    "geometry": {
        "anisotropy": "anisotropy",
        "self_similarity": "self-similarity",
        "self_similarity_adjusted": "self-similarity, less anisotropy",
        "intra_sentence_adjusted": "intra-sentence, less anisotropy",
        "variance": "static share (MEV)",
        "published_variance": "static share, as published",
    },
}
FIRST = "most frequent sense"


@app.command()
def run(
    data: Path = typer.Option(..., help="The folder of the corpora's folders", exists=True),
    study: list[str] = typer.Option(list(STUDIES), help="Which"),
    model: list[str] = typer.Option([BILM, MINILM], help="Which"),
    pictures: Path | None = typer.Option(None, help="Keep each command's files below this folder"),
    results: Path = typer.Option(RESULTS, help="Where results are, and are added"),
) -> None:
    """Measure what is not among the results yet."""
    if unknown := sorted({*study} - {*STUDIES}):
        msg.fail(f"No study '{unknown[0]}', expected {', '.join(STUDIES)}", exits=1)
    done = {_cell(line) for line in _read(results)}
    cells = [
        (name, each, seed)
        for seed in range(max(STUDIES[name].seeds for name in study))
        for name in study
        for each in STUDIES[name].models
        if each in model and seed < STUDIES[name].seeds
    ]
    results.parent.mkdir(parents=True, exist_ok=True)
    for cell in tqdm([cell for cell in cells if cell not in done], unit="run"):
        with tempfile.TemporaryDirectory() as place:
            line = _measure(*cell, data, pictures or Path(place))
        with results.open("a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")


@app.command()
def table(results: Path = typer.Option(RESULTS, help="Where results are")) -> None:
    """Print the main measures of each layer in Markdown: mean and standard deviation over the seeds."""
    lines = _read(results)
    studies = [line for line in lines if line["study"] in MEASURES]
    found = {row["name"] for line in studies for row in _rows(line)}
    layers = [f"layer {k}" for k in range(len(found)) if f"layer {k}" in found]
    columns = [*layers, *(name for name in ("uniform mix", "learned mix") if name in found)]
    print("| model | measure |", " | ".join(columns), "| most frequent |")
    print("| --- | --- |", " | ".join("---" for _ in columns), "| --- |")
    for model in dict.fromkeys(line["model"] for line in studies):
        for study, measures in MEASURES.items():
            runs = [line for line in studies if (line["study"], line["model"]) == (study, model)]
            for key, told in measures.items() if runs else ():
                values: dict[str, list[float | None]] = defaultdict(list)
                for row in (row for line in runs for row in _rows(line)):
                    values[row["name"]].append(row[key])
                if "by_word" in runs[0]["result"] and key == "accuracy":
                    values[FIRST] = [line["result"]["by_word"] for line in runs]
                cells = [_mean_and_spread(values[name]) for name in (*columns, FIRST)]
                print(f"| {model} | {told} |", " | ".join(cells), "|")


@app.command()
def details(results: Path = typer.Option(RESULTS, help="Where results are")) -> None:
    """Print everything in Markdown, with each study's command, time and peak memory."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in _read(results):
        groups[line["study"], line["model"]].append(line)
    for (study, model), lines in groups.items():
        minutes = statistics.mean(line["seconds"] for line in lines) / 60
        peak = max(line["peak_mib"] for line in lines)
        print(f"\n{study}, {model}: {len(lines)} seed(s), {minutes:.1f} min each, ", end="")
        print(f"peak {peak:,.0f} MiB\n\n    {_told(study, model)}\n")
        for note in _notes(lines):
            print(f"{note}\n")
        columns: dict[str, list[list[float | None]]] = defaultdict(list)
        names: list[str] = []
        for line in lines:
            rows = _rows(line)
            names = [row["name"] for row in rows]
            for key in (key for key in rows[0] if key not in ("name", "layer")):
                columns[key].append([row[key] for row in rows])
        columns = {
            key: runs for key, runs in columns.items() if any(v is not None for v in runs[0])
        }
        print("| |", " | ".join(key.replace("_", " ") for key in columns), "|")
        print("| --- |", " | ".join("---" for _ in columns), "|")
        for i, name in enumerate(names):
            cells = [_mean_and_spread([run[i] for run in runs]) for runs in columns.values()]
            print(f"| {name} |", " | ".join(cells), "|")


def _measure(study: str, model: str, seed: int, data: Path, folder: Path) -> Line:
    about = STUDIES[study]
    output = folder / f"{study}-{model}-{seed}".replace(", ", "-").replace(" ", "-")
    source = str(transformer_folder(model)) if model == MINILM else model
    with tempfile.TemporaryDirectory() as place:
        files = [_file(each, data, Path(place)) for each in about.arguments]
        options = ["--seed", str(seed), "--name", model]
        child = [sys.executable, "-W", "ignore", "-m", "spacy", "elmo", "analyze", about.command]
        started = time.time()
        # A child is waited for by hand, since its own peak of memory is told then only.
        process = subprocess.Popen(
            [*child, source, *files, *options, "--output", str(output)], stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        msg.fail(f"{study} of {model}, seed {seed}, failed: run it again", exits=1)
    result = json.loads((output / about.result).read_text(encoding="utf8"))
    for key in ("model", "seed", "text", "train_data", "test_data"):  # told already, or paths
        result.pop(key, None)
    return {
        "study": study,
        "model": model,
        "seed": seed,
        "seconds": round(time.time() - started),
        "peak_mib": usage.ru_maxrss / 1024,
        "result": result,
    }


def _file(argument: str, data: Path, place: Path) -> str:
    """An argument, with its file's path; of several files one that holds them all, as xz allows."""
    if "/" not in argument:
        return argument
    parts = [data / part for part in argument.split("+")]
    if len(parts) == 1:
        return str(parts[0])
    joined = place / "text.txt.xz"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    return str(joined)


def _told(study: str, model: str) -> str:
    """The command, as it would be typed in the data folder."""
    about = STUDIES[study]
    join = "".join(
        f"cat {each.replace('+', ' ')} > text.txt.xz; " for each in about.arguments if "+" in each
    )
    arguments = ["text.txt.xz" if "+" in each else each for each in about.arguments]
    return f"{join}python -m spacy elmo analyze {about.command} {model} {' '.join(arguments)}"


def _notes(lines: list[Line]) -> Iterator[str]:
    """What a study says of its data and of its learned mix."""
    result = lines[0]["result"]
    told = {key: value for key, value in result.items() if isinstance(value, int | float)}
    yield ", ".join(
        f"{key.replace('_', ' ')} {value:,}" if isinstance(value, int) else f"{key} {value:.3f}"
        for key, value in told.items()
    )
    if "mix" in result:
        mixes = zip(*(line["result"]["mix"] for line in lines), strict=True)
        yield f"Learned mix, layer 0 first: {' '.join(_mean_and_spread(list(w)) for w in mixes)}"


def _rows(line: Line) -> list[dict[str, Any]]:
    """What was measured, a row a layer or mix."""
    rows = line["result"].get("layers") or line["result"]["rows"]
    return [{"name": f"layer {row.get('layer')}", **row} for row in rows]


def _mean_and_spread(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    spread = f" ± {statistics.stdev(known):.3f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.3f}{spread}"


def _read(results: Path) -> list[Line]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf8").splitlines()]


def _cell(line: Line) -> tuple[str, str, int]:
    return line["study"], line["model"], line["seed"]


if __name__ == "__main__":
    app()
