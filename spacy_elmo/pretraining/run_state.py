"""All that a run needs to go on as if it had never stopped: out of a trainer, and into one."""

import json
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lstm import LSTMState
from ..bilm.model import BiLMState
from .checkpoint import CHECKPOINT, pack_optimizer, unpack_optimizer
from .errors import PretrainingError

if TYPE_CHECKING:
    from .trainer import Trainer


def collect(trainer: "Trainer") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON-able state. Every process must call this, as states are gathered."""
    ranks, cuda = trainer.ranks, trainer.device.type == "cuda"
    tensors = {f"model/{key}": t for key, t in trainer.model.state_dict().items()}
    tensors |= {f"optimizer/{key}": t for key, t in pack_optimizer(trainer.optimizer).items()}
    for side, state in trainer.state._asdict().items():
        for key, tensor in state._asdict().items():
            # The streams' states stand side by side, however many processes shared them.
            tensors[f"state/{side}/{key}"] = torch.cat(ranks.gather(tensor), dim=1)
    kinds = {"random": torch.get_rng_state()}
    if cuda:
        kinds["random_cuda"] = torch.cuda.get_rng_state(trainer.device)
    for kind, random in kinds.items():
        random = random.to(trainer.device)
        tensors |= {f"{kind}/{n}": t for n, t in enumerate(ranks.gather(random))}
    return tensors, {
        "step": trainer.step,
        "words": trainer.words,
        "history": trainer.history,
        "documents": trainer.documents.state(),
        "windows": trainer.windows.state(),
        "sampler": trainer.sampler and trainer.sampler.random.bit_generator.state,
        "shape": _shape(trainer),
    }


def restore(trainer: "Trainer", tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Raises PretrainingError where the state is that of another run."""
    for key, value in _shape(trainer).items():
        if state["shape"].get(key) != value:
            raise PretrainingError(
                f"{trainer.output / CHECKPOINT} was made with {key} = {state['shape'].get(key)}, "
                f"the config says {value}: resume with the same value, or give another --output."
            )

    def under(prefix: str) -> dict[str, Tensor]:
        start = f"{prefix}/"
        return {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}

    def mine(side: str) -> LSTMState:
        share = trainer.ranks.share(trainer.settings.n_streams)
        stored = under(f"state/{side}")
        return LSTMState(**{k: t[:, share].to(trainer.device) for k, t in stored.items()})

    trainer.model.load_state_dict(under("model"))
    unpack_optimizer(trainer.optimizer, under("optimizer"))
    trainer.state = BiLMState(*map(mine, BiLMState._fields))
    trainer.step, trainer.words = state["step"], state["words"]
    trainer.history = state["history"]
    trainer.documents.restore(state["documents"])
    trainer.windows.restore(state["windows"])
    if trainer.sampler:
        trainer.sampler.random.bit_generator.state = state["sampler"]
    # A process that the run did not have before keeps the random state of its seed.
    number = str(trainer.ranks.rank)
    if number in under("random"):
        torch.set_rng_state(under("random")[number])
    if number in under("random_cuda") and trainer.device.type == "cuda":
        torch.cuda.set_rng_state(under("random_cuda")[number], trainer.device)


def _shape(trainer: "Trainer") -> dict[str, Any]:
    """What a run cannot change when it goes on."""
    settings = trainer.settings
    return {
        "bilm": _sizes(trainer.model.bilm.config),
        "vocabulary size": len(trainer.vocabulary),
        "pretraining.n_streams": settings.n_streams,
        "pretraining.window": settings.window,
        "pretraining.n_samples": settings.n_samples,
        "pretraining.chunk_words": settings.chunk_words,
    }


def _sizes(config: BiLMConfig) -> dict[str, Any]:
    """As JSON values, without the words of a lexicon, which may be many."""
    if config.lexicon is None:
        return config.to_options()
    values: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    del values["lexicon"]
    return values
