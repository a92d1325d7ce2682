"""The benchmark of the analyses: a stopped run goes on, and its table is of what the file holds."""

import json
import lzma
import statistics
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_every_cell_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delitem(sys.modules, "analysis", raising=False)
    import analysis

    words = [("the", "DT"), ("dog", "NN"), ("ran", "VB"), ("home", "RB")]
    rows = [f"{k}\t{word}\t_\tX\t{tag}\t_\t0\t_\t_\t_" for k, (word, tag) in enumerate(words, 1)]
    (tmp_path / "gum").mkdir()
    with lzma.open(tmp_path / "gum" / "some.conllu.xz", "wt") as file:
        file.write("\n\n".join(["\n".join(rows)] * 30))
    text = "gum/some.conllu.xz"

    def study(seeds: int) -> dict[str, analysis.Study]:
        arguments = (text, "--test", text, "--max-words", "60")
        return {"tiny": analysis.Study("probe", arguments, "probe-tag.json", seeds)}

    results = tmp_path / "results.jsonl"

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(analysis.app, [*map(str, arguments), "--results", str(results)])
        assert result.exit_code == 0, result.output
        return result.output

    cells = ("run", "--data", tmp_path, "--study", "tiny", "--model", "en_elmo_sm")
    for seeds in (1, 2, 2):
        monkeypatch.setattr(analysis, "STUDIES", study(seeds))
        before = results.read_text() if results.exists() else ""
        run(*cells)
        assert results.read_text().startswith(before)  # what stands there is not run again
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        assert [(line["model"], line["seed"]) for line in lines] == [
            ("en_elmo_sm", seed) for seed in range(seeds)
        ]
    assert str(tmp_path) not in results.read_text()  # names, not paths of this machine
    assert all(100 < line["peak_mib"] < 4096 for line in lines)
    controls = [line["result"]["rows"][1]["control"] for line in lines]
    told = f"{statistics.mean(controls):.3f} ± {statistics.stdev(controls):.3f}"
    monkeypatch.setattr(analysis, "MEASURES", {"tiny": {"control": "control task"}})
    (row,) = (line for line in run("table").splitlines() if "control task" in line)
    assert row.split(" | ")[3] == told
    details = run("details")
    assert told in next(line for line in details.splitlines() if line.startswith("| layer 1"))
    assert f"python -m spacy elmo analyze probe en_elmo_sm {text} --test {text}" in details
