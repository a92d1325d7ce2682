"""From GPU to CPU and back: the same predictions. Skipped where there is no GPU."""

import pytest
import spacy
import torch
from pipelines import TEXTS, make_examples, make_nlp, make_warm_nlp, train
from spacy.tokens import DocBin
from thinc.api import prefer_gpu, require_cpu, require_gpu

if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)
pytest.importorskip("cupy", reason="cupy is not installed")


@pytest.fixture(autouse=True)
def back_to_cpu():
    yield
    require_cpu()


def tags(nlp):
    return [[token.tag_ for token in nlp(text)] for text in TEXTS]


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("places", [("input",), ("output",), ("input", "output")])
def test_trained_on_one_used_on_the_other(bilm_dir, tmp_path, places, trainable):
    for there, back in ((require_gpu, require_cpu), (require_cpu, require_gpu)):
        there()
        nlp = make_warm_nlp(bilm_dir, ("tagger", "ner"), places=places, trainable=trainable)
        train(nlp)
        expected, tensors = tags(nlp), [nlp(text).tensor for text in TEXTS]
        nlp.to_disk(tmp_path / there.__name__)
        back()
        again = spacy.load(tmp_path / there.__name__)
        assert tags(again) == expected
        for tensor, text in zip(tensors, TEXTS, strict=True):
            found = torch.as_tensor(again(text).tensor).cpu()
            torch.testing.assert_close(found, torch.as_tensor(tensor).cpu(), atol=1e-4, rtol=1e-4)


def test_stored_layers_are_read_on_the_gpu(bilm_dir):
    """A DocBin holds numpy arrays."""
    require_gpu()
    nlp = make_nlp(bilm_dir)
    elmo, tagger = nlp.get_pipe("elmo"), nlp.get_pipe("tagger")
    docs = [elmo(nlp.make_doc(text)) for text in TEXTS]
    stored = DocBin(store_user_data=True, docs=docs).to_bytes()
    for doc, text in zip(DocBin().from_bytes(stored).get_docs(nlp.vocab), TEXTS, strict=True):
        assert [token.tag_ for token in tagger(doc)] == [token.tag_ for token in nlp(text)]


def test_similarity(bilm_dir):
    assert prefer_gpu()
    nlp = make_nlp(bilm_dir)
    assert nlp("Ann met Bob").similarity(nlp("Bob met Ann")) > 0
    assert len(make_examples(nlp)) > 0
