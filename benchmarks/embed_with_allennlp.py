"""AllenNLP's ELMo for embed.py: reads sentences as lines of JSON, answers with the seconds it took.

Started as `PYTHON embed_with_allennlp.py DIRECTORY THREADS`, with the Python that load_with_allennlp.py
describes.
"""

import json
import sys
import time
from pathlib import Path

import torch
from load_with_allennlp import framed, stand_in


def batches(sentences: list[list[str]], size: int, by_length: bool) -> list[list[list[str]]]:
    if by_length:
        sentences = sorted(sentences, key=len)
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def ids(batch: list[list[str]]) -> torch.Tensor:
    """AllenNLP counts characters from 1, 0 is its mask."""
    longest = max(map(len, batch))
    result = torch.zeros(len(batch), longest, 50, dtype=torch.int64)
    for row, sentence in zip(result, batch, strict=True):
        words = [framed(list(word.encode()[:48])) for word in sentence]
        row[: len(sentence)] = torch.tensor(words) + 1
    return result


def main(directory: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    stand_in()
    from allennlp.modules.elmo import _ElmoBiLm

    bilm = _ElmoBiLm(str(directory / "options.json"), str(directory / "weights.hdf5")).eval()
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        start, total = time.perf_counter(), 0.0
        kept = []
        with torch.no_grad():
            for batch in batches(**request):
                # Without the boundaries.
                layers = [layer[:, 1:-1] for layer in bilm(ids(batch))["activations"]]
                for i, sentence in enumerate(batch):
                    kept.append(torch.stack([layer[i, : len(sentence)] for layer in layers]))
        seconds = time.perf_counter() - start
        total = sum(float(layers.abs().sum(dtype=torch.float64)) for layers in kept)
        print(json.dumps({"seconds": seconds, "sum": total}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
