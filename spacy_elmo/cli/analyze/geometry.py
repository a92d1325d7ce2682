"""`python -m spacy elmo analyze geometry`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import analyze_cli
from .common import (
    COMPONENT,
    LANG,
    PIPELINE,
    SEED,
    counted,
    failures,
    open_pipeline,
    show_table,
    write_csv,
    write_json,
)

if TYPE_CHECKING:
    from ...analysis.geometry_study import GeometryStudy

HEADER = (
    "Layer",
    "Anisotropy",
    "SelfSim",
    "(adj.)",
    "IntraSim",
    "(adj.)",
    "MEV",
    "(adj.)",
    "Published",
)


@analyze_cli.command("geometry")
def geometry_cli(
    pipeline: str = PIPELINE,
    text: Path = Arg(
        ..., help="Text: .txt (a text a line), .jsonl, .conllu or .spacy; .gz, .bz2, .xz"
    ),
    output: Path | None = Opt(None, "--output", "-o", help="Folder for tables and pictures"),
    compare: list[Path] = Opt(
        [], "--compare", help="geometry.json of another model, drawn beside this one"
    ),
    name: str | None = Opt(None, "--name", help="What results and pictures call the model"),
    component: str | None = COMPONENT,
    max_tokens: int | None = Opt(None, "--max-tokens", help="Read so many tokens of the text"),
    words: int = Opt(1000, "--words", help="Most words measured, drawn at random"),
    contexts: int = Opt(50, "--contexts", help="Most contexts of a word, drawn at random"),
    min_contexts: int = Opt(5, "--min-contexts", help="Sentences a word must stand in"),
    sentences: int = Opt(1000, "--sentences", help="Most sentences drawn"),
    seed: int = SEED,
    lang: str = LANG,
) -> None:
    """Measure how contextual the vectors of each layer are (Ethayarajh 2019).

    Anisotropy is the mean cosine of random words. SelfSim: that of one word in different sentences.
    IntraSim: that of a sentence's words with their mean. MEV: the most variance that a static vector
    explains. Adjusted is less the baseline: anisotropy, and for MEV that of random words. Published is
    the variance as the paper's own tables have it: about the mean, along the first component.

    The text is read twice; memory is set by --words, --contexts and --sentences, not by its length.
    """
    with failures():
        from ...analysis.corpus import read_docs
        from ...analysis.geometry_study import study_geometry
        from ...analysis.layers import layer_reader
        from ...analysis.sampling import SampleSize
        from ...extras import require

        if output is not None:
            require("matplotlib")
        others = [_read_study(path) for path in compare]
        nlp = open_pipeline(pipeline, lang)
        study = study_geometry(
            layer_reader(nlp, component),
            lambda what, total: counted(read_docs(text, nlp, max_tokens), what, total),
            model=name or Path(pipeline).name,
            text=str(text),
            size=SampleSize(min_contexts, words, contexts, sentences),
            seed=seed,
        )
        _show(study)
        if output is not None:
            _write(study, others, output)


def _show(study: "GeometryStudy") -> None:
    msg.divider(f"{study.model} on {study.text}")
    msg.text(
        f"{study.tokens:,} tokens, {study.sentences:,} sentences; {len(study.words):,} words measured, "
        f"{min(study.sentences, study.sample.sentences):,} sentences drawn, seed {study.seed}"
    )
    show_table(
        [
            (
                row.layer,
                row.anisotropy,
                row.self_similarity,
                row.self_similarity_adjusted,
                row.intra_sentence,
                row.intra_sentence_adjusted,
                row.variance,
                row.variance_adjusted,
                row.published_variance,
            )
            for row in study.layers
        ],
        HEADER,
    )
    ordered = [f"{word.word} ({word.contexts})" for word in study.by_contextuality()]
    msg.text(f"Most contextual words (contexts): {', '.join(ordered[:12])}")
    msg.text(f"Least contextual: {', '.join(reversed(ordered[-12:]))}")


def _write(study: "GeometryStudy", others: list[dict[str, Any]], output: Path) -> None:
    from ...analysis.geometry_plots import geometry_figures
    from ...analysis.plots import save

    summary = study.summary()
    write_json(output / "geometry.json", summary)
    measures = ("self_similarity", "variance", "published_variance")
    layers = range(len(study.layers))
    write_csv(
        output / "geometry-words.csv",
        (
            (word.word, word.contexts, *(float(x) for m in measures for x in getattr(word, m)))
            for word in study.by_contextuality()
        ),
        ("word", "contexts", *(f"{measure}_{layer}" for measure in measures for layer in layers)),
    )
    models = {each["model"]: each["layers"] for each in [*others, summary]}
    texts = {Path(each["text"]).name for each in [*others, summary]}
    for stem, figure in geometry_figures(models, f"Text: {', '.join(sorted(texts))}").items():
        save(figure, output / f"geometry-{stem}")
    msg.good(f"Wrote tables and pictures to {output}")


def _read_study(path: Path) -> dict[str, Any]:
    try:
        entry = json.loads(path.read_text(encoding="utf8"))
        return {"model": entry["model"], "text": entry["text"], "layers": entry["layers"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"'{path}' is not what --output writes as geometry.json ({type(error).__name__}: {error})."
        ) from error
