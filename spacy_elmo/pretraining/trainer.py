"""The training loop: steps, evaluations, checkpoints, and going on where a run stopped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ..bilm.lstm import LSTMState
from ..bilm.model import BiLMState
from .checkpoint import (
    CHECKPOINT,
    pack_optimizer,
    read_checkpoint,
    unpack_optimizer,
    write_checkpoint,
    write_model,
)
from .corpus import Corpus
from .errors import PretrainingError
from .evaluation import Perplexity, evaluate
from .objective import LanguageModel, detach
from .optimizers import LearnRate, Optimization
from .shuffle import ShuffledDocuments
from .softmax import LogUniformSampler
from .vocabulary import TextCounts, Vocabulary
from .windows import RESETS, TextWindows

LAST = "last"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The section [pretraining] of a config, without its blocks.

    max_steps (int): Windows that the run reads.
    n_streams, window (int): A step reads window positions of n_streams streams, in each direction.
    reset (str): Where a stream's state becomes zero: "document", "sentence" or "never".
    n_samples (int): Candidates of the sampled softmax; 0: the full softmax.
    dropout (float): On the LSTM layers' inputs and the top layer's output.
    clip_norm (float): Bound of the gradients' norm.
    eval_frequency, checkpoint_frequency (int): In steps.
    buffer_words, chunk_words (int): As ShuffledDocuments takes them.
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
    buffer_words: int = 1_000_000
    chunk_words: int = 2000

    def __post_init__(self) -> None:
        least = {"n_samples": 0, "dropout": 0.0, "clip_norm": 0.0}
        for name, value in vars(self).items():
            if name != "reset" and (isinstance(value, bool) or value < least.get(name, 1)):
                raise PretrainingError(
                    f"pretraining.{name} is {value!r}, expected at least {least.get(name, 1)}."
                )
        if self.dropout >= 1:
            raise PretrainingError(f"pretraining.dropout is {self.dropout}, expected less than 1.")
        if self.reset not in RESETS:
            raise PretrainingError(
                f"pretraining.reset is {self.reset!r}, expected one of {', '.join(RESETS)}."
            )


@dataclass(frozen=True)
class Progress:
    """After a step: what a logger shows.

    loss: Of the step's window, nats a prediction, both directions' mean.
    words: Read since the run began.
    epoch: Epochs since the run began, with their fraction.
    """

    step: int
    max_steps: int
    words: int
    epoch: float
    loss: float
    learn_rate: float
    perplexity: Perplexity | None = None
    is_best: bool = False


class Trainer:
    """Train a language model on a corpus into a directory.

    The directory holds the best model by held-out perplexity, under `last` the last one, and the
    checkpoint. Where it holds a checkpoint already, that very run goes on.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        counts: TextCounts,
        train: Corpus,
        dev: Corpus,
        settings: Settings,
        optimization: Optimization,
        output: Path,
        *,
        seed: int = 0,
        precision: torch.dtype = torch.float32,
    ) -> None:
        self.model = model.train()
        self.vocabulary = vocabulary
        self.counts = counts
        self.dev = dev
        self.settings = settings
        self.output = output
        self.precision = precision
        self.device = model.bilm.device
        self.documents = ShuffledDocuments(
            train,
            buffer_words=settings.buffer_words,
            chunk_words=settings.chunk_words,
            seed=seed,
        )
        self.windows = TextWindows(
            self.documents,
            vocabulary,
            n_streams=settings.n_streams,
            steps=settings.window,
            reset=settings.reset,
        )
        n_samples = settings.n_samples
        self.sampler = (
            LogUniformSampler(len(vocabulary), n_samples, seed)
            if 0 < n_samples < len(vocabulary)
            else None
        )
        self.parameters = list(model.parameters())
        self.optimizer = optimization.create(self.parameters)
        self.learn_rate = LearnRate(optimization.learn_rate)
        self.state = model.bilm.zero_state(settings.n_streams)
        self.step = 0
        self.words = 0
        self.history: list[dict[str, Any]] = []
        self._stopping = False
        self._saved_step = 0
        torch.manual_seed(seed)
        if (output / CHECKPOINT).is_file():
            self._restore()

    def stop(self) -> None:
        """Let run finish its step, write a checkpoint, and end."""
        self._stopping = True

    def run(self) -> Iterator[Progress]:
        """Train to the last step, or until stop; a checkpoint stands at the end of either."""
        settings = self.settings
        while self.step < settings.max_steps and not self._stopping:
            rate = self.learn_rate.at(self.step)
            loss = self._train_step(rate)
            at_end = self.step == settings.max_steps
            perplexity, is_best = None, False
            if at_end or self.step % settings.eval_frequency == 0:
                perplexity, is_best = self._evaluate()
            if at_end or self._stopping or self.step % settings.checkpoint_frequency == 0:
                self._save()
            yield Progress(
                self.step,
                settings.max_steps,
                self.words,
                self._epoch(),
                loss,
                rate,
                perplexity,
                is_best,
            )
        # The flag may have come while the caller looked at the last step.
        if self.step != self._saved_step:
            self._save()

    def _train_step(self, rate: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        window = next(self.windows)
        candidates = self.sampler.sample() if self.sampler else None
        low = self.precision != torch.float32
        with torch.autocast(self.device.type, self.precision, enabled=low):
            losses, state = self.model(window, self.state, candidates)
        self.state = detach(state)
        loss = (losses.forward + losses.backward) / (2 * losses.positions)
        self.optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(self.parameters, self.settings.clip_norm)
        self.optimizer.step()
        self.step += 1
        self.words += window.n_words
        return float(loss.detach())

    def _evaluate(self) -> tuple[Perplexity, bool]:
        reset = self.settings.reset
        perplexity = evaluate(
            self.model,
            self.dev,
            self.vocabulary,
            reset="document" if reset == "never" else reset,
        )
        best = min((entry["mean"] for entry in self.history), default=float("inf"))
        self.history.append(
            {"step": self.step, "words": self.words, "epoch": self._epoch(), **perplexity.to_dict()}
        )
        is_best = perplexity.mean < best
        meta = {"tokens": self.counts.tokens, "coverage": self.counts.coverage}
        for directory in (self.output, self.output / LAST) if is_best else (self.output / LAST,):
            history = {"history": self.history}
            write_model(directory, self.model, self.vocabulary, {**meta, **history})
        return perplexity, is_best

    def _epoch(self) -> float:
        return self.words / self.counts.tokens

    def _save(self) -> None:
        tensors: dict[str, Tensor] = {"random": torch.get_rng_state()}
        if self.device.type == "cuda":
            tensors["random_cuda"] = torch.cuda.get_rng_state(self.device)
        tensors |= {f"model/{key}": t for key, t in self.model.state_dict().items()}
        tensors |= {f"optimizer/{key}": t for key, t in pack_optimizer(self.optimizer).items()}
        for side, state in self.state._asdict().items():
            tensors |= {f"state/{side}/{key}": t for key, t in state._asdict().items()}
        write_checkpoint(
            self.output / CHECKPOINT,
            tensors,
            {
                "step": self.step,
                "words": self.words,
                "history": self.history,
                "documents": self.documents.state(),
                "windows": self.windows.state(),
                "sampler": self.sampler and self.sampler.random.bit_generator.state,
                "shape": self._shape(),
            },
        )
        self._saved_step = self.step

    def _restore(self) -> None:
        tensors, state = read_checkpoint(self.output / CHECKPOINT)
        for key, value in self._shape().items():
            if state["shape"].get(key) != value:
                raise PretrainingError(
                    f"{self.output / CHECKPOINT} was made with {key} = {state['shape'].get(key)}, the "
                    f"config says {value}: resume with the same value, or give another --output."
                )

        def under(prefix: str) -> dict[str, Tensor]:
            start = f"{prefix}/"
            return {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}

        self.model.load_state_dict(under("model"))
        unpack_optimizer(self.optimizer, under("optimizer"))
        self.state = BiLMState(
            *(
                LSTMState(**{k: t.to(self.device) for k, t in under(f"state/{side}").items()})
                for side in BiLMState._fields
            )
        )
        self.step = self._saved_step = state["step"]
        self.words, self.history = state["words"], state["history"]
        self.documents.restore(state["documents"])
        self.windows.restore(state["windows"])
        if self.sampler:
            self.sampler.random.bit_generator.state = state["sampler"]
        torch.set_rng_state(tensors["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random_cuda"], self.device)

    def _shape(self) -> dict[str, Any]:
        """What a run cannot change when it goes on."""
        settings = self.settings
        return {
            "bilm": self.model.bilm.config.to_options(),
            "vocabulary size": len(self.vocabulary),
            "pretraining.n_streams": settings.n_streams,
            "pretraining.window": settings.window,
            "pretraining.n_samples": settings.n_samples,
            "pretraining.chunk_words": settings.chunk_words,
        }
