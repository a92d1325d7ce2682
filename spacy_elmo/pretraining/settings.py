"""The section [pretraining] of a config."""

from dataclasses import dataclass

from .errors import PretrainingError
from .windows import RESETS

# The least value of a setting where it is not 1.
LEAST = {
    "n_samples": 0,
    "dropout": 0.0,
    "clip_norm": 0.0,
    "frozen_steps": 0,
    "bilm_rate": 0.0,
    "patience": 0,
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of a run, without the blocks that are sections of their own.

    max_steps (int): Windows that the run reads.
    n_streams, window (int): A step reads window positions of n_streams streams, in each direction.
    reset (str): Where a stream's state becomes zero: "document", "sentence" or "never".
    n_samples (int): Candidates of the sampled softmax; 0: the full softmax.
    dropout (float): On the LSTM layers' inputs and the top layer's output.
    clip_norm (float): Bound of the gradients' norm.
    eval_frequency, checkpoint_frequency (int): In steps.
    patience (int): Steps without a better held-out perplexity that end the run; 0: never.
    buffer_words, chunk_words (int): As ShuffledDocuments takes them.
    init_from (str | None): A biLM to start from, in any layout. Its output layer, where it has one,
        is taken too, and extended by the words of the new text.
    frozen_steps (int): First steps in which only the output layer is trained.
    bilm_rate (float): The biLM's learning rate, relative to the output layer's.
    """

    max_steps: int
    n_streams: int = 128
    window: int = 20
    reset: str = "document"
    n_samples: int = 0
    dropout: float = 0.1
    clip_norm: float = 10.0
    eval_frequency: int = 1000
    checkpoint_frequency: int = 500
    patience: int = 0
    buffer_words: int = 1_000_000
    chunk_words: int = 2000
    init_from: str | None = None
    frozen_steps: int = 0
    bilm_rate: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = LEAST.get(name, 1)
            if isinstance(value, int | float) and value < least:
                raise PretrainingError(
                    f"pretraining.{name} is {value!r}, expected at least {least}."
                )
        if self.dropout >= 1:
            raise PretrainingError(f"pretraining.dropout is {self.dropout}, expected less than 1.")
        if self.reset not in RESETS:
            raise PretrainingError(
                f"pretraining.reset is {self.reset!r}, expected one of {', '.join(RESETS)}."
            )
