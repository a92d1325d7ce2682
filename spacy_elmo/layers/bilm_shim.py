"""The biLM's PyTorch module inside a Thinc model: loaded late, stored as safetensors."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import srsly
from thinc.api import Optimizer, PyTorchShim, get_torch_default_device

if TYPE_CHECKING:
    from ..bilm.config import BiLMConfig
    from ..bilm.model import BiLM


class BiLMShim(PyTorchShim):
    """name (str): Read when the biLM is first needed: a saved pipeline brings its own weights and
        must load where that path does not exist.
    trainable (bool): Whether gradients reach the biLM and an optimizer may change it.
    """

    def __init__(self, name: str, trainable: bool) -> None:
        super().__init__(None)
        self.name = name
        self.trainable = trainable

    @property
    def bilm(self) -> "BiLM":
        """The biLM, on the device of the current ops. Raises BiLMError if it cannot be read."""
        if self._model is None:
            from ..bilm.loading import load_bilm

            self._adopt(load_bilm(self.name))
        return self._model

    def set_weights(self, config: "BiLMConfig", tensors: dict[str, Any]) -> None:
        from ..bilm.loading import build

        self._adopt(build(config, tensors))

    def _adopt(self, bilm: "BiLM") -> None:
        self._model = bilm.to(get_torch_default_device()).requires_grad_(self.trainable)

    def finish_update(self, optimizer: Optimizer) -> None:
        if self.trainable and self._model is not None:
            super().finish_update(optimizer)
            # Else a step without gradients would still move the weights, by the optimizer's momentum.
            self._model.zero_grad(set_to_none=True)

    def to_device(self, device_type: str, device_id: int) -> None:
        if self._model is not None:
            super().to_device(device_type, device_id)

    def to_bytes(self) -> bytes:
        from ..bilm.formats import native

        config, weights = native.to_bytes(self.bilm)
        return srsly.msgpack_dumps({"config": config, "weights": weights})

    def from_bytes(self, bytes_data: bytes) -> "BiLMShim":
        from ..bilm.formats import native

        stored = srsly.msgpack_loads(bytes_data)
        self.set_weights(*native.from_bytes(stored["config"], stored["weights"]))
        return self

    def to_disk(self, path: str | Path) -> None:
        """Write a directory in this package's own layout, a biLM that `name` can be given."""
        from ..bilm.formats import native

        native.write(self.bilm.config, self.bilm.state_dict(), Path(path))

    def from_disk(self, path: str | Path) -> "BiLMShim":
        from ..bilm.formats import native

        self.set_weights(*native.read(Path(path)))
        return self

    def copy(self) -> "BiLMShim":
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "BiLMShim":
        """A frozen biLM is shared: nothing changes it, and a copy of it is large."""
        other = BiLMShim(self.name, self.trainable)
        other._model = copy.deepcopy(self._model, memo) if self.trainable else self._model
        return other
