"""Character ids -> token vectors: the biLM's layer 0."""

import torch
from torch import Tensor, nn

from .config import BiLMConfig


class Highway(nn.Module):
    """g * relu(W_transform x) + (1 - g) * x, g = sigmoid(W_carry x).

    The gate multiplies the transformed side; the names are those of the published files.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.carry = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """*Shape:* (words, width) -> (words, width)."""
        gate = torch.sigmoid(self.carry(inputs))
        return gate * torch.relu(self.transform(inputs)) + (1 - gate) * inputs


class CharCNN(nn.Module):
    """Character embedding, convolutions, max-pooling, highway layers, projection.

    Reference: bilm-tf, `_build_word_char_embeddings`.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.n_characters, config.char_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_dim, n, width) for width, n in config.filters
        )
        self.activation = nn.ReLU() if config.activation == "relu" else nn.Tanh()
        self.highways = nn.Sequential(*(Highway(config.n_filters) for _ in range(config.n_highway)))
        self.projection = (
            nn.Linear(config.n_features, config.projection_dim)
            if config.projects_characters
            else nn.Identity()
        )
        self._widest = max(width for width, _ in config.filters)
        self._padding = config.padding

    def forward(self, char_ids: Tensor) -> Tensor:
        """*Shape:* (words, max_characters) -> (words, projection_dim)."""
        return self.projection(self.filter(char_ids))

    def filter(self, char_ids: Tensor) -> Tensor:
        """What precedes the projection. *Shape:* (words, max_characters) -> (words, filters)."""
        characters = self.embedding(self._crop(char_ids)).transpose(1, 2)
        pooled = [convolve(characters).amax(dim=2) for convolve in self.convolutions]
        # Both activations are monotonic, so they may follow the maximum.
        return self.highways(self.activation(torch.cat(pooled, dim=1)))

    def _crop(self, char_ids: Tensor) -> Tensor:
        """Drop columns of padding, but keep a window of nothing else: it takes part in the maximum."""
        if len(char_ids) == 0:
            return char_ids
        longest = int((char_ids != self._padding).sum(dim=1).max())
        return char_ids[:, : longest + self._widest]


class WordCharCNN(CharCNN):
    """A word's own vector before its filters, then the projection (ELMoForManyLangs,
    `ConvTokenEmbedder`).
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        assert config.lexicon is not None
        self.words = nn.Embedding(len(config.lexicon.words), config.lexicon.word_dim)

    def forward(self, ids: Tensor) -> Tensor:
        """*Shape:* (words, max_characters + 1), the last one the word's id -> (words, projection_dim)."""
        words, characters = self.words(ids[:, -1]), self.filter(ids[:, :-1])
        return self.projection(torch.cat([words, characters], dim=1))


def make_token_encoder(config: BiLMConfig) -> CharCNN:
    return WordCharCNN(config) if config.lexicon and config.lexicon.words else CharCNN(config)
