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
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As bilm-tf: at the start most of the input passes through."""
        for linear in (self.transform, self.carry):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.carry.bias, -2.0)

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
        self.reset_parameters(config)

    def reset_parameters(self, config: BiLMConfig) -> None:
        """As bilm-tf; the highway layers have done theirs."""
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        for convolve, (width, _) in zip(self.convolutions, config.filters, strict=True):
            assert isinstance(convolve, nn.Conv1d)
            assert convolve.bias is not None
            if config.activation == "relu":
                nn.init.uniform_(convolve.weight, -0.05, 0.05)
            else:
                nn.init.normal_(convolve.weight, std=(width * config.char_dim) ** -0.5)
            nn.init.zeros_(convolve.bias)
        if isinstance(self.projection, nn.Linear):
            nn.init.normal_(self.projection.weight, std=config.n_filters**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, char_ids: Tensor) -> Tensor:
        """*Shape:* (words, max_characters) -> (words, projection_dim)."""
        return self.projection(self.add_words(char_ids, self.highways(self.pool(char_ids))))

    def add_words(self, char_ids: Tensor, features: Tensor) -> Tensor:
        """What else is projected beside the characters' features: here nothing."""
        return features

    def pool(self, char_ids: Tensor) -> Tensor:
        """What precedes the highway layers. *Shape:* (words, max_characters) -> (words, filters)."""
        characters = self.embedding(self._crop(char_ids)).transpose(1, 2)
        # max rather than amax: it remembers where, which makes a cheaper gradient.
        pooled = [convolve(characters).max(dim=2).values for convolve in self.convolutions]
        # Both activations are monotonic, so they may follow the maximum.
        return self.activation(torch.cat(pooled, dim=1))

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

    def add_words(self, ids: Tensor, features: Tensor) -> Tensor:
        """*Shape:* (words, max_characters + 1), the last one the word's id -> (words, features)."""
        return torch.cat([self.words(ids[:, -1]), features], dim=1)

    def pool(self, ids: Tensor) -> Tensor:
        return super().pool(ids[:, :-1])


def make_token_encoder(config: BiLMConfig) -> CharCNN:
    return WordCharCNN(config) if config.lexicon and config.lexicon.words else CharCNN(config)
