"""A biLM's training written plainly in PyTorch, for pretrain.py to compare with: a module for each part,
every token through the char CNN, scores of all rows at once. nn.LSTM knows no clip, and its state is
carried on over sentences.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from spacy_elmo import BiLM
from spacy_elmo.pretraining.softmax import LogUniformSampler
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.pretraining.windows import TextWindow

State = tuple[Tensor, Tensor]


class PlainLanguageModel(nn.Module):
    def __init__(self, bilm: BiLM, vocabulary_size: int, dropout: float) -> None:
        super().__init__()
        config = bilm.config
        self.encoder, self.spelling = bilm.token_encoder, bilm.spelling
        self.directions = nn.ModuleList(
            nn.LSTM(
                config.projection_dim,
                config.cell_dim,
                config.n_layers,
                proj_size=config.projection_dim,
                dropout=dropout,
            )
            for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)
        self.weight = nn.Parameter(torch.randn(vocabulary_size, config.projection_dim) * 0.1)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(
        self,
        window: TextWindow,
        states: list[State | None],
        sampled: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, list[State]]:
        spelled = (self.spelling.boundaries(), self.spelling.words(window.words))
        ids = torch.from_numpy(np.concatenate(spelled))
        hiddens, after = [], []
        sides = (window.forward, window.backward)
        for lstm, side, state in zip(self.directions, sides, states, strict=True):
            tokens = self.encoder(ids[side.inputs.flatten()])
            tokens = self.dropout(tokens.view(*side.inputs.shape, -1))
            hidden, new = lstm(tokens, state)
            hiddens.append(self.dropout(hidden).flatten(0, 1))
            after.append((new[0].detach(), new[1].detach()))
        targets = torch.cat([side.targets.flatten() for side in sides])
        return self._loss(torch.cat(hiddens), targets, sampled), after

    def _loss(
        self, hidden: Tensor, targets: Tensor, sampled: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        if sampled is None:
            return functional.cross_entropy(hidden @ self.weight.t() + self.bias, targets)
        ids, correction = sampled
        scores = hidden @ self.weight[ids].t() + self.bias[ids] - correction[ids]
        scores = scores.masked_fill(targets[:, None] == ids[None], -torch.inf)
        own = (hidden * self.weight[targets]).sum(1) + self.bias[targets] - correction[targets]
        scores = torch.cat([own[:, None], scores], dim=1)
        return functional.cross_entropy(scores, torch.zeros_like(targets))


class PlainTrainer:
    """Reads on in the text of a trainer, whose weights it does not touch."""

    def __init__(self, trainer: Trainer) -> None:
        settings = trainer.settings
        bilm = BiLM(trainer.model.bilm.config)
        size = len(trainer.vocabulary)
        self.model = PlainLanguageModel(bilm, size, settings.dropout)
        self.windows, self.clip_norm = trainer.windows, settings.clip_norm
        self.sampler: LogUniformSampler | None = trainer.sampler
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.states: list[State | None] = [None, None]

    def step(self) -> int:
        """Train on a window; its words."""
        window = next(self.windows)
        sampled = self.sampler.sample() if self.sampler else None
        loss, states = self.model(window, self.states, sampled)
        self.states = list(states)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        return window.n_words
