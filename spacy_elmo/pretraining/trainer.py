"""The training loop: steps, evaluations, checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

from . import run_state
from .checkpoint import CHECKPOINT, read_checkpoint, write_checkpoint, write_model
from .corpus import Corpus
from .errors import PretrainingError
from .evaluation import Perplexity, evaluate
from .objective import LanguageModel, detach
from .optimizers import LearnRate, Optimization
from .ranks import Ranks
from .settings import Settings
from .shuffle import ShuffledDocuments
from .softmax import LogUniformSampler
from .vocabulary import TextCounts, Vocabulary
from .windows import TextWindows

LAST = "last"


@dataclass(frozen=True)
class Progress:
    """After a step: what a logger shows.

    loss: Of the step's windows, nats a prediction, both directions' mean.
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

    Of several processes each reads its own streams and makes its own gradients, which are averaged;
    the first one evaluates and writes.
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
        ranks: Ranks | None = None,
    ) -> None:
        self.model = model.train()
        self.vocabulary = vocabulary
        self.counts = counts
        self.dev = dev
        self.settings = settings
        self.output = output
        self.precision = precision
        self.ranks = ranks or Ranks()
        self.device = model.bilm.device
        if settings.n_streams % self.ranks.size:
            raise PretrainingError(
                f"pretraining.n_streams is {settings.n_streams}, which {self.ranks.size} processes "
                "cannot share equally: make it a multiple."
            )
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
            mine=self.ranks.share(settings.n_streams),
        )
        # Every process draws the same samples, as one process would for all streams.
        self.sampler = (
            LogUniformSampler(len(vocabulary), settings.n_samples, seed)
            if 0 < settings.n_samples < len(vocabulary)
            else None
        )
        self.parameters = list(model.parameters())
        self.optimizer = optimization.create(
            [
                {"params": list(model.bilm.parameters()), "rate": settings.bilm_rate},
                {"params": list(model.output.parameters()), "rate": 1.0},
            ]
        )
        self.learn_rate = LearnRate(optimization.learn_rate)
        self.state = model.bilm.zero_state(settings.n_streams // self.ranks.size)
        self.step = 0
        self.words = 0
        self.history: list[dict[str, Any]] = []
        self._stopping = False
        self._saved_step = 0
        # Dropout differs from process to process.
        torch.manual_seed(seed + self.ranks.rank)
        if (output / CHECKPOINT).is_file():
            run_state.restore(self, *read_checkpoint(output / CHECKPOINT))
            self._saved_step = self.step

    @property
    def best(self) -> dict[str, Any] | None:
        """The evaluation of the lowest held-out perplexity so far."""
        return min(self.history, key=lambda entry: entry["mean"], default=None)

    @property
    def finished(self) -> bool:
        """Whether the run is over: by its length, or as patience has run out."""
        if self.step >= self.settings.max_steps:
            return True
        best = self.best
        if best is None or not self.settings.patience:
            return False
        waited: int = self.history[-1]["step"] - best["step"]
        return waited >= self.settings.patience

    def stop(self) -> None:
        """Let run finish its step, write a checkpoint, and end."""
        self._stopping = True

    def run(self) -> Iterator[Progress]:
        """Train until finished, or until stop; a checkpoint stands at the end of either."""
        settings = self.settings
        if self.step == 0 and settings.init_from is not None:
            # Before and after are then of one vocabulary, and the best is never worse than the start.
            self._evaluate()
        while not self._over():
            rate = self.learn_rate.at(self.step)
            loss = self._train_step(rate)
            perplexity, is_best = None, False
            if self.step == settings.max_steps or self.step % settings.eval_frequency == 0:
                perplexity, is_best = self._evaluate()
            if self.step % settings.checkpoint_frequency == 0:
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
        if self.step != self._saved_step:
            self._save()

    def _train_step(self, rate: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        self.model.bilm.requires_grad_(self.step >= self.settings.frozen_steps)
        window = next(self.windows).to(self.device)
        candidates = self.sampler.sample().to(self.device) if self.sampler else None
        low = self.precision != torch.float32
        with torch.autocast(self.device.type, self.precision, enabled=low):
            loss, state = self.model(window, self.state, candidates)
        self.state = detach(state)
        self.optimizer.zero_grad()
        loss.backward()
        self.ranks.average_gradients(self.parameters)
        clip_grad_norm_(self.parameters, self.settings.clip_norm)
        self.optimizer.step()
        self.step += 1
        self.words += window.n_words
        return float(self.ranks.average(loss.detach()))

    def _evaluate(self) -> tuple[Perplexity | None, bool]:
        """Evaluate and write the model, in the first process."""
        if not self.ranks.is_first:
            return None, False
        reset = self.settings.reset
        perplexity = evaluate(
            self.model,
            self.dev,
            self.vocabulary,
            reset="document" if reset == "never" else reset,
        )
        best = self.best
        self.history.append(
            {"step": self.step, "words": self.words, "epoch": self._epoch(), **perplexity.to_dict()}
        )
        is_best = best is None or perplexity.mean < best["mean"]
        meta = {
            "tokens": self.counts.tokens,
            "coverage": self.counts.coverage,
            "history": self.history,
        }
        for directory in (self.output / LAST, *([self.output] if is_best else [])):
            write_model(directory, self.model, self.vocabulary, meta)
        return perplexity, is_best

    def _over(self) -> bool:
        """Whether any process was told to stop or has finished: all end after the same step."""
        over = torch.tensor(float(self._stopping or self.finished), device=self.device)
        return float(self.ranks.average(over)) > 0

    def _epoch(self) -> float:
        return self.words / self.counts.tokens

    def _save(self) -> None:
        tensors, state = run_state.collect(self)
        if self.ranks.is_first:
            write_checkpoint(self.output / CHECKPOINT, tensors, state)
        self._saved_step = self.step
