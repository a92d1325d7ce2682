"""Small pipelines on a small biLM, and what they predict."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import torch
from conftest import SMALL, random_bilm
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_elmo.bilm.formats import native
from spacy_elmo.layers import bilm_model
from spacy_elmo.layers.listener import ElmoListener

# Words, tags, heads, dependencies, entities.
SENTENCES = [
    ("Ann likes old London .", "N V J N .", [1, 1, 3, 1, 1], "s R a o p", "U-PER O O U-LOC O"),
    ("We met Bob in Paris .", "P V N I N .", [1, 1, 1, 1, 3, 1], "s R o c o p", "O O U-PER O U-LOC O"),
    ("London is old .", "N V J .", [1, 1, 1, 1], "s R a p", "U-LOC O O O"),
    ("She sold it to Ann and Bob .", "P V P I N C N .", [1, 1, 1, 1, 3, 4, 4, 1], "s R o c o c c p",
     "O O O O U-PER O U-PER O"),
]  # fmt: skip
TEXTS = [
    "Ann met Bob in London.",
    "",
    "Paris",
    "  \n ",
    "She likes it. We sold London to Paris! Is it old?",
    "\nBob \n\n likes words of incomprehensible" + "ness" * 20 + ", and 🦊🦊 in 日本語.",
]
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1", "dropout": 0.0}


# A biLM of four layers, 20 wide, where the others have three, 16 wide.
LARGER = replace(SMALL, n_layers=3, projection_dim=10)


def write_larger(place: Path) -> Path:
    native.write(LARGER, random_bilm(LARGER, seed=1).state_dict(), place)
    return place


def tok2vec_config(places: Iterable[str] = ("input",), **listener: Any) -> dict[str, Any]:
    """spacy-elmo.ElmoTok2Vec.v1 with a listener at each of places."""
    block = {**LISTENER, **listener}
    return {
        "@architectures": "spacy-elmo.ElmoTok2Vec.v1",
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 8,
            "attrs": ["NORM"],
            "rows": [100],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": 8,
            "window_size": 1,
            "maxout_pieces": 2,
            "depth": 1,
        },
        "input": block if "input" in places else None,
        "output": block if "output" in places else None,
    }


def component_config(factory: str, tok2vec: dict[str, Any]) -> dict[str, Any]:
    if factory == "tagger":
        return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}
    # By default the parser leaves out labels that are seen less than 30 times.
    settings = {"min_action_freq": 1} if factory == "parser" else {}
    return {
        **settings,
        "model": {
            "@architectures": "spacy.TransitionBasedParser.v2",
            "state_type": factory,
            "extra_state_tokens": False,
            "hidden_width": 8,
            "maxout_pieces": 1,
            "use_upper": True,
            "tok2vec": tok2vec,
        },
    }


def add_elmo(nlp: Language, bilm: Path | str, name: str = "elmo", **config: Any) -> Any:
    """config: Of the biLM, but for mix, keep_layers and cache."""
    own = {key: config.pop(key) for key in ("mix", "keep_layers", "cache") if key in config}
    return nlp.add_pipe("elmo", name=name, config={"model": {"name": str(bilm), **config}, **own})


def add_task(nlp: Language, factory: str, name: str | None = None, **tok2vec: Any) -> Any:
    config = component_config(factory, tok2vec_config(**tok2vec))
    return nlp.add_pipe(factory, name=name or factory, config=config)


def make_nlp(bilm: Path | str, tasks: Iterable[str] = ("tagger",), **config: Any) -> Language:
    """An initialized pipeline of `elmo` and tasks that listen to it.

    config: places, of the listeners; what else, of the `elmo` component.
    """
    listening = {key: config.pop(key) for key in ("places", "mix") if key in config}
    fix_random_seed(0)
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, **config)
    for task in tasks:
        add_task(nlp, task, **listening)
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def make_warm_nlp(bilm: Path | str, *args: Any, **config: Any) -> Language:
    """Trained for a few steps without the biLM: a new tagger's output layer is zero, it sends nothing."""
    nlp = make_nlp(bilm, *args, **config)
    train(nlp, exclude=["elmo"])
    return nlp


def make_examples(nlp: Language) -> list[Example]:
    examples = []
    for text, tags, heads, deps, entities in SENTENCES:
        words = text.split()
        reference = Doc(
            nlp.vocab,
            words=words,
            tags=tags.split(),
            heads=heads,
            deps=["ROOT" if dep == "R" else dep for dep in deps.split()],
            ents=[entity.replace("U-", "B-") for entity in entities.split()],
        )
        examples.append(Example(Doc(nlp.vocab, words=words), reference))
    return examples


def train(nlp: Language, steps: int = 3, **settings: Any) -> dict[str, float]:
    """A few steps of `nlp.update`. Returns the losses."""
    losses: dict[str, float] = {}
    optimizer = settings.pop("sgd", None) or spacy.util.create_default_optimizer()
    for _ in range(steps):
        nlp.update(make_examples(nlp), sgd=optimizer, losses=losses, **settings)
    return losses


class Scores(list[list[float]]):
    """Equal to others up to rounding, which depends on what was read before and beside."""

    def __eq__(self, other: object) -> bool:
        return np.shape(self) == np.shape(other) and np.allclose(self, other, rtol=0, atol=1e-5)  # type: ignore[arg-type]


def predictions(nlp: Language, texts: Iterable[str] = TEXTS) -> list[dict[str, Any]]:
    """What the pipeline says, as JSON values, with the tagger's scores."""
    found = []
    for text in texts:
        doc = nlp(text)
        found.append(
            {
                "tags": [token.tag_ for token in doc],
                "heads": [token.head.i for token in doc],
                "deps": [token.dep_ for token in doc],
                "ents": [[ent.start, ent.end, ent.label_] for ent in doc.ents],
            }
        )
        if nlp.has_pipe("tagger"):
            (scores,) = nlp.get_pipe("tagger").model.predict([nlp.make_doc(text)])  # type: ignore[attr-defined]
            found[-1]["scores"] = Scores(scores.tolist())
    return found


def get_bilm(nlp: Language, name: str = "elmo") -> Any:
    return bilm_model.get_shim(nlp.get_pipe(name).model).bilm  # type: ignore[attr-defined]


def weights_of(bilm: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy().copy() for name, p in bilm.named_parameters()}


def changed(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    return [name for name in before if not np.array_equal(before[name], after[name])]


def get_listeners(component: Any) -> list[ElmoListener]:
    return [node for node in component.model.walk() if isinstance(node, ElmoListener)]


def mixes(component: Any) -> list[list[float]]:
    """Scalars and gamma of each scalar mix in a component."""
    nodes = [node for node in component.model.walk() if node.name == "scalar_mix"]
    return [[*node.get_param("scalars"), *node.get_param("gamma")] for node in nodes]


class Recorder:
    """An optimizer that changes nothing and keeps the gradients it is given, by parameter."""

    def __init__(self) -> None:
        self.gradients: dict[Any, np.ndarray] = {}

    def __call__(self, key: Any, weights: Any, gradient: Any) -> tuple[Any, Any]:
        self.gradients[key[1]] = gradient.copy()
        gradient[...] = 0
        return weights, gradient


def bilm_gradients(
    nlp: Language, *batches: list[Example], exclude: Iterable[str] = ()
) -> dict[str, np.ndarray]:
    """What the biLM's optimizer is given after batches, as spaCy's training loop would give it."""
    for batch in batches or [make_examples(nlp)]:
        nlp.update(batch, sgd=False, exclude=list(exclude))
    recorder = Recorder()
    nlp.get_pipe("elmo").finish_update(recorder)  # type: ignore[attr-defined]
    return recorder.gradients


@contextmanager
def counting_bilm_calls(nlp: Language, name: str = "elmo") -> Iterator[list[int]]:
    """The number of Docs at each call of the biLM."""
    model = nlp.get_pipe(name).model  # type: ignore[attr-defined]
    forward, calls = model._func, []

    def counted(model: Any, docs: Any, is_train: bool) -> Any:
        calls.append(len(docs))
        return forward(model, docs, is_train)

    model.replace_callbacks(counted, init=model.init)
    try:
        yield calls
    finally:
        model.replace_callbacks(forward, init=model.init)
