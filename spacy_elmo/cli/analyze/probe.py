"""`python -m spacy elmo analyze probe`."""

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.cli._util import Arg, Opt
from wasabi import msg

from ...analysis.plots import Panel, points, save
from . import analyze_cli
from .common import (
    COMPONENT,
    LANG,
    PIPELINE,
    SEED,
    counted,
    failures,
    open_pipeline,
    progress,
    show_table,
    write_csv,
    write_json,
)

if TYPE_CHECKING:
    from ...analysis.layers import LayerReader


class Task(str, Enum):
    tag = "tag"
    sense = "sense"


@analyze_cli.command("probe")
def probe_cli(
    pipeline: str = PIPELINE,
    data: Path = Arg(
        ..., help="Training data: for tags .conllu or .spacy, for senses .jsonl (.xz ...)"
    ),
    test: Path = Opt(..., "--test", help="Held-out data in the same format"),
    task: Task = Opt(Task.tag, "--task", help="tag: a linear probe; sense: nearest neighbour"),
    label: str = Opt(
        "tag", "--label", help="For tags: tag, pos, morph, or one feature, morph:Number"
    ),
    output: Path | None = Opt(None, "--output", "-o", help="Folder for tables and the picture"),
    name: str | None = Opt(None, "--name", help="What results and pictures call the model"),
    component: str | None = COMPONENT,
    max_words: int = Opt(
        20000, "--max-words", help="For tags: most words to train on; half to test on"
    ),
    max_tokens: int | None = Opt(
        None, "--max-tokens", help="For senses: most tokens of training data read"
    ),
    by_use: bool = Opt(
        False, "--by-use", help="For senses: also by the nearest single use in the training data"
    ),
    seed: int = SEED,
    lang: str = LANG,
) -> None:
    """Ask each layer, their average and a learned mix for tags or word senses (Peters et al. 2018, tables
    5 and 6).

    Tags: a logistic regression on frozen vectors. Its control task gives each word type a random label
    (Hewitt and Liang 2019); selectivity is the difference. Senses: the nearest mean of the senses
    that the training data has of the word, beside its most frequent sense, to which a word that the
    data lacks falls back. With --by-use every use in the training data is kept in memory, two bytes a
    number, and the last column has what the nearest of them finds, of words seen with several senses.
    """
    with failures():
        from ...analysis.layers import layer_reader
        from ...extras import require

        for module in (
            ("sklearn", "scipy") if output is None else ("sklearn", "scipy", "matplotlib")
        ):
            require(module)
        reader = layer_reader(open_pipeline(pipeline, lang), component)
        called = name or Path(pipeline).name
        about = {"model": called, "train_data": str(data), "test_data": str(test), "seed": seed}
        if task is Task.tag:
            _probe_tags(reader, data, test, label, max_words, seed, about, output)
        else:
            _probe_senses(reader, data, test, max_tokens, by_use, seed, about, output)


def _probe_tags(
    reader: "LayerReader",
    data: Path,
    test: Path,
    label: str,
    max_words: int,
    seed: int,
    about: dict[str, Any],
    output: Path | None,
) -> None:
    from ...analysis.corpus import read_docs
    from ...analysis.labels import label_getter, labelled_vectors
    from ...analysis.probes import LabelledVectors, probe

    get_label = label_getter(label)

    def vectors(path: Path, limit: int, what: str) -> LabelledVectors:
        def read(step: str, total: int | None) -> Any:
            return counted(read_docs(path, reader.nlp), step, total)

        return labelled_vectors(reader, read, get_label, max_words=limit, seed=seed, what=what)

    train, held_out = vectors(data, max_words, "to train"), vectors(test, max_words // 2, "to test")
    study = probe(train, held_out, seed=seed, watch=progress("Probe", " representations"))
    msg.divider(f"'{label}' from {about['model']}: {data.name}, tested on {test.name}")
    msg.text(
        f"{study.train:,} words to train, {study.test:,} to test, {study.labels} labels; accuracy of the "
        f"most frequent label {study.majority:.3f}, of each word's most frequent {study.by_word:.3f}"
    )
    header = ("Vectors", "Accuracy", "Seen", "Unseen", "Control", "Selectivity")
    rows = [tuple(asdict(row).values()) for row in study.rows]
    show_table(rows, header)
    _show_mix(study.mix.tolist())
    if output is not None:
        names = [row.name for row in study.rows]
        accuracies = [row.accuracy for row in study.rows]
        selectivities = [row.selectivity for row in study.rows]
        panels = [
            Panel(
                f"Probe for '{label}'",
                accuracies,
                "accuracy",
                {"each word's most frequent": study.by_word},
            ),
            Panel("Selectivity", selectivities, "accuracy less control task's"),
        ]
        stem = f"probe-{label.replace(':', '-')}"
        _write(output, stem, study, about, rows, header)
        _draw(output, stem, names, panels, about)


def _probe_senses(
    reader: "LayerReader",
    data: Path,
    test: Path,
    max_tokens: int | None,
    by_use: bool,
    seed: int,
    about: dict[str, Any],
    output: Path | None,
) -> None:
    from ...analysis.sense_corpus import draw_sentences, read_senses
    from ...analysis.sense_mix import learn_sense_mix
    from ...analysis.senses import evaluate_senses, learn_senses

    def read(path: Path, what: str, limit: int | None = None) -> Any:
        drawn = draw_sentences(lambda: read_senses(path, reader.nlp), limit, seed)
        return progress(what, " sentences")(drawn)

    learned = read(data, "Learn senses", max_tokens)
    inventory = learn_senses(reader, learned, keep_uses=by_use, seed=seed)
    study = evaluate_senses(reader, inventory, read(test, "Test senses"), learn_sense_mix)
    msg.divider(f"Word senses from {about['model']}: {data.name}, tested on {test.name}")
    msg.text(
        f"{study.train:,} instances to learn from, {study.test:,} to test; {study.seen:,} of words seen, "
        f"{study.ambiguous:,} of words seen with several senses"
    )
    header = ("Vectors", "Accuracy", "Seen", "Ambiguous", "By use")[: 5 if by_use else 4]
    rows = [tuple(asdict(row).values())[: len(header)] for row in study.rows]
    show_table(rows, header)
    _show_mix(study.mix.tolist())
    if output is not None:
        first, *others = study.rows
        seen, ambiguous = [row.seen for row in others], [row.ambiguous for row in others]
        panels = [
            Panel("Nearest mean, words seen", seen, "accuracy", {first.name: first.seen}),
            Panel(
                "Nearest mean, ambiguous words",
                ambiguous,
                "accuracy",
                {first.name: first.ambiguous},
            ),
        ]
        if by_use:
            level = {first.name: first.ambiguous}
            title = "Nearest use, ambiguous words"
            panels.append(Panel(title, [row.by_use for row in others], "accuracy", level))
        _write(output, "probe-sense", study, about, rows, header)
        _draw(output, "probe-sense", [row.name for row in others], panels, about)


def _show_mix(mix: list[float]) -> None:
    told = ", ".join(f"{weight:.2f}" for weight in mix)
    msg.text(f"Learned mix, weights of layers 0 to {len(mix) - 1}: {told}")


def _write(
    output: Path, stem: str, study: Any, about: dict[str, Any], rows: Any, header: tuple[str, ...]
) -> None:
    write_json(output / f"{stem}.json", {**about, **asdict(study), "mix": study.mix.tolist()})
    write_csv(output / f"{stem}.csv", rows, tuple(column.lower() for column in header))


def _draw(
    output: Path, stem: str, names: list[str], panels: list[Panel], about: dict[str, Any]
) -> None:
    train, test = Path(about["train_data"]).name, Path(about["test_data"]).name
    save(points(names, panels, note=f"{about['model']}; {train}, tested on {test}"), output / stem)
    msg.good(f"Wrote tables and a picture to {output}")
