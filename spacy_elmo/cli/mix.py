"""`python -m spacy elmo mix`."""

from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi import msg

from . import elmo_cli
from .analyze.common import failures, number, show_table, write_csv, write_json

if TYPE_CHECKING:
    from ..analysis.mixes import MixSummary


@elmo_cli.command("mix")
def mix_cli(
    pipelines: list[str] = Arg(..., help="A trained pipeline, or several that differ in seed only"),
    output: Path | None = Opt(None, "--output", "-o", help="Folder for tables and the picture"),
) -> None:
    """Show which layers the tasks of a trained pipeline mix (Peters et al. 2018, figure 2).

    Of every listener the weight of each layer and the scale gamma, at the input and at the output of the
    task's encoder apart. Of several pipelines the mean and, after +-, the standard deviation.
    """
    with failures():
        import spacy

        from ..analysis.mixes import pipeline_mixes, summarise
        from ..extras import require

        if output is not None:
            require("matplotlib")
        found = summarise([pipeline_mixes(spacy.load(name)) for name in pipelines])
        _show(found)
        if output is not None:
            _write(found, pipelines, output)


def _show(found: list["MixSummary"]) -> None:
    if found[0].pipelines > 1:
        msg.text(f"Mean and standard deviation of {found[0].pipelines} pipelines")
    n_layers = max(len(mix.weights) for mix in found)
    rows = []
    for mix in found:
        cells = [
            _spread(w, s)
            for w, s in zip(mix.weights.tolist(), mix.weights_spread.tolist(), strict=True)
        ]
        cells += [""] * (n_layers - len(cells))
        gamma = _spread(mix.gamma, mix.gamma_spread)
        rows.append((mix.component, mix.placement, mix.kind, *cells, gamma))
    header = ("Component", "Place", "Mix", *(f"Layer {i}" for i in range(n_layers)), "Gamma")
    show_table(rows, header)


def _spread(mean: float, deviation: float) -> str:
    return number(mean) if deviation != deviation else f"{number(mean)} +-{number(deviation)}"


def _write(found: list["MixSummary"], pipelines: list[str], output: Path) -> None:
    from ..analysis.plots import grouped_bars, save

    rows = [
        {
            "component": mix.component,
            "placement": mix.placement,
            "mix": mix.kind,
            "weights": mix.weights.tolist(),
            "weights_spread": mix.weights_spread.tolist(),
            "gamma": mix.gamma,
            "gamma_spread": mix.gamma_spread,
        }
        for mix in found
    ]
    write_json(output / "mix.json", {"pipelines": pipelines, "mixes": rows})
    write_csv(
        output / "mix.csv",
        (
            (mix.component, mix.placement, mix.kind, what, *values)
            for mix in found
            for what, values in _csv_values(mix)
        ),
        ("component", "placement", "mix", "what", "value", "spread"),
    )
    n_layers = max(len(mix.weights) for mix in found)
    weights = {f"layer {k}": [_at(mix.weights, k) for mix in found] for k in range(n_layers)}
    spread = {f"layer {k}": [_at(mix.weights_spread, k) for mix in found] for k in range(n_layers)}
    figure = grouped_bars(
        [f"{mix.component}\n{mix.placement}" for mix in found],
        weights,
        errors=spread if found[0].pipelines > 1 else None,
        title="Layers mixed by each task",
        y_label="weight (softmax)",
        note=f"{found[0].pipelines} pipelines; whiskers: ± 1 standard deviation"
        if found[0].pipelines > 1
        else "",
    )
    save(figure, output / "mix")
    msg.good(f"Wrote tables and a picture to {output}")


def _csv_values(mix: "MixSummary") -> list[tuple[str, tuple[float, float]]]:
    layers = zip(mix.weights.tolist(), mix.weights_spread.tolist(), strict=True)
    named = [(f"layer {k}", values) for k, values in enumerate(layers)]
    return [*named, ("gamma", (mix.gamma, mix.gamma_spread))]


def _at(values: "object", k: int) -> float:
    return float(values[k]) if k < len(values) else 0.0  # type: ignore[arg-type, index]
