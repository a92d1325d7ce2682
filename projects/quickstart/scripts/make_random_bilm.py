"""Write a small biLM of random weights: it shows how a biLM is used, and has learned nothing."""

from pathlib import Path

import torch
import typer
from wasabi import msg

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.formats import native
from spacy_elmo.bilm.model import BiLM

CONFIG = BiLMConfig(
    char_dim=16,
    filters=((1, 32), (2, 32), (3, 64), (4, 128)),
    n_highway=1,
    projection_dim=64,
    cell_dim=128,
    n_layers=2,
    cell_clip=3.0,
    projection_clip=3.0,
    skip_connections=True,
)


def main(output: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    native.write(CONFIG, BiLM(CONFIG).state_dict(), output)
    msg.warn(f"{output} is a biLM of RANDOM weights: it has read no text and stands in for one")


if __name__ == "__main__":
    typer.run(main)
