"""Write a pretrained biLM in half precision, with a card of its perplexities."""

import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import typer
from wasabi import msg

from spacy_elmo import Embedder, load_bilm
from spacy_elmo.bilm.formats import native

SENTENCE = ["She", "will", "play", "Ophelia", "in", "the", "play", "."]


def main(
    trained: Path,
    output: Path,
    metrics: list[Path],
    about: Path | None = typer.Option(None, help="What else the card says: data, licences, limits"),
    earlier: Path | None = typer.Option(
        None, help="history.json of the export that the run went on from"
    ),
) -> None:
    bilm = load_bilm(trained)
    halves = {key: tensor.half() for key, tensor in bilm.state_dict().items()}
    native.write(bilm.config, halves, output)
    (before,), (after,) = (Embedder(load_bilm(d))([SENTENCE]) for d in (trained, output))
    meta = json.loads((trained / "meta.json").read_text(encoding="utf8"))
    best = min(meta["history"], key=lambda entry: entry["mean"])
    history = [
        entry for entry in meta["history"] if entry["step"] and entry["step"] <= best["step"]
    ]
    runs = [*(json.loads(earlier.read_text(encoding="utf8")) if earlier else []), history]
    (output / "history.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf8")
    _plot(runs, output / "perplexity.svg")
    words = sum(run[-1]["words"] for run in runs)
    steps = " and ".join(f"{run[-1]['step']:,}" for run in runs)
    size = sum(file.stat().st_size for file in output.iterdir()) / 1e6
    n = sum(weight.numel() for weight in bilm.parameters())
    lines = [
        f"# {output.name}",
        "",
        f"A biLM of {n:,} parameters in half precision, {size:.1f} MB. Rounding its weights moved the "
        f"vectors of a sentence by at most {abs(after - before).max():.1g}.",
        "",
        f"Trained on {words:,} words, {words / meta['tokens']:.2f} epochs of {meta['tokens']:,} tokens, "
        f"in {steps} steps; the output layer's {best['vocabulary_size']:,} words cover "
        f"{meta['coverage']:.2%} of them.",
        "",
        "| text | forward | backward | mean |",
        "| --- | --- | --- | --- |",
        _row("held out while training", best),
    ]
    protocols = []
    for path in metrics:
        found = json.loads(path.read_text(encoding="utf8"))
        lines.append(_row(f"test, states reset at each {found['reset']}", found))
        protocols += ["", found["protocol"]]
    lines += [*protocols, "", "![Perplexity by words read](perplexity.svg)"]
    if about is not None:
        lines += ["", about.read_text(encoding="utf8").rstrip()]
    (output / "README.md").write_text("\n".join(lines) + "\n", encoding="utf8")
    msg.good(f"{output}: {size:.1f} MB")


def _row(name: str, found: dict) -> str:
    return f"| {name} | {found['forward']:.1f} | {found['backward']:.1f} | {found['mean']:.1f} |"


def _plot(runs: list[list[dict]], path: Path) -> None:
    """Each run's line begins where the words of the runs before it end."""
    matplotlib.use("Agg")
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for side, colour in (("forward", "C0"), ("backward", "C1")):
        before = 0
        for number, run in enumerate(runs):
            words = [(before + entry["words"]) / 1e6 for entry in run]
            perplexities = [entry[side] for entry in run]
            axes.plot(words, perplexities, marker=".", color=colour, label="" if number else side)
            before += run[-1]["words"]
    axes.set(xlabel="million words read", ylabel="held-out perplexity", yscale="log")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    typer.run(main)
