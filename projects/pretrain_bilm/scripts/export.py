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
) -> None:
    bilm = load_bilm(trained)
    halves = {key: tensor.half() for key, tensor in bilm.state_dict().items()}
    native.write(bilm.config, halves, output)
    (before,), (after,) = (Embedder(load_bilm(d))([SENTENCE]) for d in (trained, output))
    meta = json.loads((trained / "meta.json").read_text(encoding="utf8"))
    best = min(meta["history"], key=lambda entry: entry["mean"])
    _plot(meta["history"], output / "perplexity.svg")
    size = sum(file.stat().st_size for file in output.iterdir()) / 1e6
    n = sum(weight.numel() for weight in bilm.parameters())
    lines = [
        f"# {output.name}",
        "",
        f"A biLM of {n:,} parameters in half precision, {size:.1f} MB. Rounding its weights moved the "
        f"vectors of a sentence by at most {abs(after - before).max():.1g}.",
        "",
        f"Trained on {best['words']:,} words, {best['epoch']:.2f} epochs of {meta['tokens']:,} tokens, "
        f"in {best['step']:,} steps; the output layer's {best['vocabulary_size']:,} words cover "
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


def _plot(history: list[dict], path: Path) -> None:
    matplotlib.use("Agg")
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    words = [entry["words"] / 1e6 for entry in history]
    for side in ("forward", "backward"):
        axes.plot(words, [entry[side] for entry in history], marker=".", label=side)
    axes.set(xlabel="million words read", ylabel="held-out perplexity", yscale="log")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    typer.run(main)
