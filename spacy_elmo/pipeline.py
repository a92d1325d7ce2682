"""The component `elmo`: Doc in, Doc with layers out, and listeners served."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from spacy import util
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from thinc.types import Floats2d, Floats3d

from .layers import bilm_model
from .layers.delivery import Delivery
from .layers.feature_cache import FeatureCache
from .layers.listener import ElmoListener
from .layers.portions import portions
from .linker import check_linker
from .output import register_extension, set_layers
from .replace import replace_listener, replace_listener_config
from .spans import SentenceSpans
from .vectors import prefer_tensor

Mix = Model[list[Floats3d], list[Floats2d]]

DEFAULT_MODEL = {
    "@architectures": "spacy-elmo.BiLM.v1",
    "name": "en_elmo_sm",
    "trainable": False,
    "get_spans": {"@misc": "spacy-elmo.sentence_spans.v1"},
    "batch_words": 4096,
    "carry_state": False,
    "precision": "float32",
}
DEFAULT_MIX = {
    "@layers": "spacy-elmo.ScalarMix.v1",
    "weights": "uniform",
    "l2": 0.0,
    "normalize_layers": False,
}

DEFAULT_CACHE = {"@misc": "spacy-elmo.memory_cache.v1", "max_mb": 1000, "dtype": "float32"}

register_extension()


@Language.factory(
    "elmo",
    assigns=["doc._.elmo", "doc.tensor"],
    default_config={
        "model": DEFAULT_MODEL,
        "mix": DEFAULT_MIX,
        "keep_layers": True,
        "cache": DEFAULT_CACHE,
    },
)
def make_elmo(
    nlp: Language,
    name: str,
    model: Model[list[Doc], list[Floats3d]],
    mix: Mix,
    keep_layers: bool,
    cache: FeatureCache | None,
) -> "Elmo":
    """The factory `elmo`.

    model: `spacy-elmo.BiLM.v1`.
    mix: `spacy-elmo.ScalarMix.v1` for `doc.tensor`. No task trains it; listeners have their own.
    keep_layers (bool): Keep the layers as `doc._.elmo`. False: only where a listener reads them.
    cache: Keeps the layers that a frozen biLM makes while the pipeline is trained: `memory_cache` or
        `disk_cache`; null: none. A loaded pipeline that is not trained does not use it.
    """
    return Elmo(nlp.vocab, model, name, mix=mix, keep_layers=keep_layers, cache=cache)


class Elmo(TrainablePipe):
    """Sets `doc._.elmo.layers`, (layers, tokens, width), and `doc.tensor`, (tokens, width)."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], list[Floats3d]],
        name: str = "elmo",
        *,
        mix: Mix,
        keep_layers: bool = True,
        cache: FeatureCache | None = None,
    ) -> None:
        self.vocab = vocab
        self.model = model
        self.name = name
        self.mix = mix
        self.keep_layers = keep_layers
        self.cache = cache
        self.listener_map = {}
        self.delivery = Delivery(model.ops)
        self._late_optimizer: Optimizer | None = None
        self._unreported_loss = 0.0
        model.attrs["replace_listener"] = replace_listener
        model.attrs["replace_listener_cfg"] = replace_listener_config

    # Listeners, as spaCy's ListenedToComponent

    @property
    def listener_map(self) -> dict[str, list[ElmoListener]]:
        return self._listener_map

    @listener_map.setter
    def listener_map(self, found: dict[str, list[ElmoListener]]) -> None:
        """spaCy empties it before it looks for listeners again."""
        self._listener_map = found
        self._tensor_is_taken = False
        self._tok2vec_listens = False

    @property
    def listeners(self) -> list[ElmoListener]:
        return [listener for found in self.listener_map.values() for listener in found]

    @property
    def listening_components(self) -> list[str]:
        return list(self.listener_map)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        found = self.listener_map.setdefault(component_name, [])
        if not any(listener is other for other in found):
            found.append(listener)
        former = listener.link.upstream
        if isinstance(former, Elmo) and former is not self:
            former.remove_listener(listener, component_name)
        listener.connect(self)

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        found = self.listener_map.get(component_name, [])
        if not any(listener is other for other in found):
            return False
        # A new list: `nlp.replace_listeners` removes listeners while it goes over the old one.
        if rest := [other for other in found if other is not listener]:
            self.listener_map[component_name] = rest
        else:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Called for each later component. With several `elmo`, `upstream = "*"` means the nearest:
        the last one to call this.
        """
        if not isinstance(getattr(component, "model", None), Model):
            return
        for node in component.model.walk():
            if isinstance(node, ElmoListener) and node.upstream_name in ("*", self.name):
                check_linker(component)
                self.add_listener(node, component.name)
                self._tok2vec_listens |= isinstance(component, Tok2Vec)
            elif isinstance(node, Tok2VecListener):
                self._check_foreign(node, component.name)
                self._leave_tensor_to(component.name)

    def _check_foreign(self, listener: Tok2VecListener, reader: str) -> None:
        if listener.upstream_name == self.name:
            raise ValueError(
                f"'{reader}' has spaCy's Tok2VecListener with upstream = '{self.name}', expected "
                f"spacy-elmo.ElmoListener.v1, which alone can listen to an `elmo` component: put it in "
                f"its place in [components.{reader}.model.tok2vec]."
            )

    def _leave_tensor_to(self, reader: str) -> None:
        warned = self._tensor_is_taken
        self._tensor_is_taken = True
        # A tok2vec that listens has ELMo in its vectors.
        if warned or self._tok2vec_listens:
            return
        warnings.warn(
            f"'{self.name}' leaves doc.tensor to spaCy's tok2vec, because '{reader}' reads it: vectors "
            "and similarities will not mean ELMo; doc._.elmo is set.",
            stacklevel=2,
        )

    def sizes(self) -> tuple[int, int]:
        """Layers of the biLM, and the width of each; loads it."""
        bilm_model.load(self.model)
        return self.model.get_dim("nL"), self.model.get_dim("nO")

    # Prediction

    def __call__(self, doc: Doc) -> Doc:
        for annotated in self.pipe([doc]):
            return annotated
        # As spaCy has it where the error handler goes on.
        return None  # type: ignore[return-value]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Docs one after the other, of which as many are read at once as their words allow, up to
        batch_size.
        """
        words = self.model.attrs["reading"].batch_words
        for docs in portions(stream, len, words, batch_size):
            try:
                if self._keeps or len(docs) > 1:
                    self.set_annotations(docs, self.predict(docs))
                else:
                    self._finish_late_step()
                    self._set_vectors(docs[0], self._mixed_in_parts(docs[0]))
                    self._remember_spans(docs)
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    @property
    def _keeps(self) -> bool:
        return self.keep_layers or bool(self.listener_map)

    def _mixed_in_parts(self, doc: Doc) -> Floats2d:
        mix = self._initialized_mix()
        parts = bilm_model.read_in_parts(self.model, doc)
        return cast(Floats2d, mix.ops.xp.concatenate([mix.predict([X])[0] for X in parts]))

    def _set_vectors(self, doc: Doc, vectors: Floats2d) -> None:
        if not self._tensor_is_taken:
            doc.tensor = vectors  # type: ignore[assignment]
            prefer_tensor(doc)

    def predict(self, docs: Iterable[Doc]) -> list[Floats3d]:
        """Layers of each Doc. *Shape:* (layers, tokens, width)."""
        self._finish_late_step()
        return self.model.predict(list(docs))

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[Floats3d]) -> None:
        docs = list(docs)
        if self._keeps:
            self.delivery.add(docs, scores, None)
        mixed = self._initialized_mix().predict(list(scores))
        for doc, layers, vectors in zip(docs, scores, mixed, strict=True):
            if self._keeps:
                set_layers(doc, self.name, layers)
            self._set_vectors(doc, vectors)
        self._remember_spans(docs)

    def _remember_spans(self, docs: Sequence[Doc]) -> None:
        get_spans = self.model.attrs["reading"].get_spans
        if isinstance(get_spans, SentenceSpans):
            get_spans.remember(docs)

    def deliver(self, docs: Sequence[Doc]) -> Delivery:
        """The layers of docs for a listener. While a batch is in training, gradients of all Docs are
        wanted: some components train copies of those that this one was given.
        """
        missing = self.delivery.missing(docs)
        if missing:
            learns = self.delivery.is_open
            layers, backprop = self.model(missing, is_train=learns)
            self.delivery.add(missing, layers, backprop if learns else None)
        return self.delivery

    def _initialized_mix(self) -> Mix:
        """The mix, sized for the biLM: a pipeline works without `initialize`."""
        if not self.mix.has_param("scalars"):
            n_layers, width = self.sizes()
            self.mix.set_dim("nL", n_layers)
            self.mix.set_dim("nO", width)
            self.mix.initialize()
        return self.mix

    # Training

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Load the biLM; its weights are what they are, nothing is drawn anew."""
        validate_get_examples(get_examples, "Elmo.initialize")
        self.model.initialize()
        self._initialized_mix()
        bilm_model.get_shim(self.model).cache = self.cache

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | bool | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Deliver the layers to the listeners. Their gradients come back while they are updated; they
        go on into the biLM, if it is trainable, in finish_update or before the next batch.

        losses: As of spaCy's tok2vec, the sum of the squared gradients; 0 for a frozen biLM.
        """
        losses = {} if losses is None else losses
        examples = list(examples)
        validate_examples(examples, "Elmo.update")
        self._finish_batch()
        losses[self.name] = losses.get(self.name, 0.0) + self._unreported_loss
        self._unreported_loss = 0.0
        if not self.listeners:
            return losses
        docs = [example.predicted for example in examples]
        bilm_model.get_shim(self.model).cache = self.cache
        trainable = bilm_model.get_shim(self.model).trainable
        layers, backprop = self.model(docs, is_train=trainable)
        self.delivery = Delivery(self.model.ops)
        self.delivery.add(docs, layers, backprop if trainable else None)
        self._late_optimizer = sgd if trainable and callable(sgd) else None
        for listener in self.listeners:
            # One that is gone was of another pipeline.
            if listener.link.upstream is None:
                listener.connect(self)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the biLM, if it is trainable. `nlp.update` with an optimizer calls this before the
        listeners have sent anything: then it is done before the next batch, with their gradients.
        """
        if self.delivery.waits:
            self._late_optimizer = sgd
            return
        self._finish_batch()
        self._step(sgd)

    def _finish_batch(self) -> None:
        self._unreported_loss += self.delivery.finish()
        if self._late_optimizer is not None:
            self._step(self._late_optimizer)
            self._late_optimizer = None

    def _finish_late_step(self, closed: bool = False) -> None:
        """What `nlp.update` with an optimizer has left to do, when no gradients can come any more."""
        if self._late_optimizer is not None and (closed or not self.delivery.is_open):
            self._finish_batch()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles and copies have the last step as well."""
        self._finish_late_step()
        return super().__reduce_ex__(protocol)

    def _step(self, optimizer: Optimizer) -> None:
        self.model.finish_update(optimizer)
        if bilm_model.get_shim(self.model).trainable:
            self.delivery = Delivery(self.model.ops)

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
        **config: Any,
    ) -> dict[str, float]:
        """Nothing to do: the biLM is not rehearsed, its listeners ask for the layers they need."""
        return {} if losses is None else losses

    def get_loss(self, examples: Iterable[Example], scores: Any) -> None:
        """The loss is the listeners'."""

    def add_label(self, label: str) -> int:
        raise NotImplementedError(f"'{self.name}' has no labels.")

    # Serialisation: the biLM in its own layout, so that a saved pipeline needs no other file

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        self._finish_late_step(closed=True)
        writers: dict[str, Callable[[Path], None]] = {
            "vocab": lambda place: self.vocab.to_disk(place, exclude=exclude),
            "bilm": bilm_model.get_shim(self.model).to_disk,
            "mix": self._initialized_mix().to_disk,
        }
        util.to_disk(path, writers, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Elmo":
        def read_bilm(place: Path) -> None:
            bilm_model.get_shim(self.model).from_disk(place)
            bilm_model.load(self.model)

        readers: dict[str, Callable[[Path], Any]] = {
            "vocab": lambda place: self.vocab.from_disk(place, exclude=exclude),
            "bilm": read_bilm,
            "mix": self.mix.from_disk,
        }
        util.from_disk(path, readers, exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        self._finish_late_step(closed=True)
        writers = {
            "vocab": lambda: self.vocab.to_bytes(exclude=exclude),
            "bilm": bilm_model.get_shim(self.model).to_bytes,
            "mix": self._initialized_mix().to_bytes,
        }
        return util.to_bytes(writers, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "Elmo":
        def read_bilm(data: bytes) -> None:
            bilm_model.get_shim(self.model).from_bytes(data)
            bilm_model.load(self.model)

        readers = {
            "vocab": lambda data: self.vocab.from_bytes(data, exclude=exclude),
            "bilm": read_bilm,
            "mix": lambda data: self.mix.from_bytes(data),
        }
        util.from_bytes(bytes_data, readers, exclude)
        return self
