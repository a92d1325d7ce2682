"""The biLM's PyTorch module inside a Thinc model: loaded late, stored as safetensors."""

import copy
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import srsly
from thinc.api import Optimizer, PyTorchShim, get_torch_default_device, torch2xp, xp2torch
from thinc.types import FloatsXd

if TYPE_CHECKING:
    from ..bilm.config import BiLMConfig
    from ..bilm.embedder import Embedder
    from ..bilm.model import BiLM
    from ..bilm.precision import Precision
    from ..bilm.token_cache import TokenCache
    from .feature_cache import FeatureCache


class BiLMShim(PyTorchShim):
    """name (str): Read when the biLM is first needed: a saved pipeline brings its own weights and
        must load where that path does not exist.
    trainable (bool): Whether gradients reach the biLM and an optimizer may change it.
    """

    def __init__(self, name: str, trainable: bool) -> None:
        super().__init__(None)
        self.name = name
        self.trainable = trainable
        self.cache: FeatureCache | None = None
        self._embedder: Embedder | None = None
        self._digest: str | None = None

    @property
    def bilm(self) -> "BiLM":
        """The biLM, on the device of the current ops. Raises BiLMError if it cannot be read."""
        if self._model is None:
            from ..bilm.loading import load_bilm

            self._adopt(load_bilm(self.name))
        return self._model

    def set_weights(
        self, config: "BiLMConfig", tensors: dict[str, Any], cache: "TokenCache | None" = None
    ) -> None:
        from ..bilm.loading import build

        bilm = build(config, tensors)
        bilm.token_cache = cache
        self._adopt(bilm)

    def _adopt(self, bilm: "BiLM") -> None:
        self._model = bilm.to(get_torch_default_device()).requires_grad_(self.trainable)
        if self.trainable:
            bilm.token_cache = None
        self._embedder = self._digest = None

    def embedder(self, batch_words: int, precision: "Precision") -> "Embedder":
        """The same one each time: it keeps packed weights and the vectors of words."""
        from ..bilm.embedder import Embedder

        if self._embedder is None:
            self._embedder = Embedder(self.bilm, batch_words=batch_words, precision=precision)
        return self._embedder

    def open_cache(self, settings: str) -> "FeatureCache | None":
        """The cache, if there is one, for this biLM read with these settings."""
        if self.cache is not None:
            self._digest = self._digest or _digest(self.bilm)
            self.cache.open(f"{self._digest} {settings}")
        return self.cache

    def finish_update(self, optimizer: Optimizer) -> None:
        """As PyTorchShim, which makes each weight a view of the one before it: of those none is freed."""
        import torch

        if self.trainable and self._model is not None:
            for name, weight in self._model.named_parameters():
                if weight.grad is None:
                    continue
                updated, _ = optimizer(
                    (self.id, name),
                    cast(FloatsXd, torch2xp(weight.data)),
                    cast(FloatsXd, torch2xp(weight.grad)),
                )
                with torch.no_grad():
                    weight.copy_(xp2torch(updated, device=weight.device))
            # Else a step without gradients would still move the weights, by the optimizer's momentum.
            self._model.zero_grad(set_to_none=True)
            if self._embedder is not None:
                self._embedder.weights_changed()

    def to_device(self, device_type: str, device_id: int) -> None:
        if self._model is not None:
            super().to_device(device_type, device_id)
            self._embedder = None

    def to_bytes(self) -> bytes:
        from ..bilm.formats import native

        config, weights = native.to_bytes(self.bilm)
        cache = self.bilm.token_cache
        stored = {"token_cache": native.token_cache_to_bytes(cache)} if cache is not None else {}
        return srsly.msgpack_dumps({"config": config, "weights": weights, **stored})

    def from_bytes(self, bytes_data: bytes) -> "BiLMShim":
        from ..bilm.formats import native

        stored = srsly.msgpack_loads(bytes_data)
        config, tensors = native.from_bytes(stored["config"], stored["weights"])
        cache = stored.get("token_cache")
        self.set_weights(
            config,
            tensors,
            cache and native.token_cache_from_bytes(cache, config, "the serialised biLM"),
        )
        return self

    def to_disk(self, path: str | Path) -> None:
        """Write a directory in this package's own layout, a biLM that `name` can be given."""
        from ..bilm.formats import native

        native.write(self.bilm.config, self.bilm.state_dict(), Path(path))
        if self.bilm.token_cache is not None:
            native.write_token_cache(self.bilm.token_cache, Path(path))
        else:
            (Path(path) / native.TOKEN_CACHE).unlink(missing_ok=True)

    def from_disk(self, path: str | Path) -> "BiLMShim":
        from ..bilm.formats import native

        config, tensors = native.read(Path(path))
        cache = Path(path) / native.TOKEN_CACHE
        read = native.read_token_cache(cache, config) if cache.is_file() else None
        self.set_weights(config, tensors, read)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Packed weights are of this process."""
        return {**self.__dict__, "cache": None, "_embedder": None}

    def copy(self) -> "BiLMShim":
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "BiLMShim":
        """A frozen biLM is shared: nothing changes it, and a copy of it is large."""
        other = BiLMShim(self.name, self.trainable)
        other._model = copy.deepcopy(self._model, memo) if self.trainable else self._model
        return other


def _digest(bilm: "BiLM") -> str:
    """Of all that the layers depend on."""
    digest = hashlib.blake2b(repr(bilm.config).encode(), digest_size=16)
    for name, tensor in sorted(bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().data)
    return digest.hexdigest()
