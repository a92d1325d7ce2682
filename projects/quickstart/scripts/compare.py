"""Print the scores of two pipelines side by side, and what the ELMo pipeline learned of the layers."""

from pathlib import Path

import spacy
import srsly
import typer
from wasabi import msg

from spacy_elmo.analysis.mixes import pipeline_mixes


def main(baseline: Path, elmo: Path, pipeline: Path) -> None:
    scores = [srsly.read_json(path) for path in (baseline, elmo)]
    rows = [_row("all", *scores)]
    for label in sorted(scores[0]["ents_per_type"]):
        rows.append(_row(label, *(_per_type(score, label) for score in scores)))
    msg.divider("F1 on the evaluation sentences")
    msg.table(
        rows,
        header=("entities", "spaCy", "spaCy + ELMo", "difference"),
        aligns=("l", "r", "r", "r"),
        divider=True,
    )
    msg.divider("Layer weights that the task has learned")
    nlp = spacy.load(pipeline)
    mixes = pipeline_mixes(nlp)
    names = ["token", *(f"layer {i}" for i in range(1, len(mixes[0].weights)))]
    rows = [(m.place, *(f"{x:.3f}" for x in (*m.weights, m.gamma))) for m in mixes]
    msg.table(
        rows, header=("", *names, "gamma"), divider=True, aligns=("l", *"r" * len(rows[0][1:]))
    )
    msg.text("One seed on a small evaluation set: a difference of a few points can be chance.")


def _row(name: str, *scores: dict) -> tuple[str, str, str, str]:
    without, with_elmo = (100 * score["ents_f"] for score in scores)
    return name, f"{without:.1f}", f"{with_elmo:.1f}", f"{with_elmo - without:+.1f}"


def _per_type(score: dict, label: str) -> dict:
    return {"ents_f": score["ents_per_type"].get(label, {"f": 0.0})["f"]}


if __name__ == "__main__":
    typer.run(main)
