"""Layout 3: ELMoForManyLangs, against its own program."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from references import HERE, assert_vectors, layers_of

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.bilm.errors import BiLMError
from spacy_elmo.bilm.formats import hdf5, many_langs, many_langs_config, native
from spacy_elmo.bilm.formats.many_langs_map import encoder, token_embedder
from spacy_elmo.bilm.loading import find, load_bilm

# A device's name as a pickle spells it.
CUDA = b"X\6\0\0\0cuda:0"
VARIANTS = sorted(path.name for path in HERE.glob("many_langs_*"))


def expected(variant: str) -> list[np.ndarray]:
    with np.load(HERE / variant / "layers.npz") as stored:
        return layers_of(stored)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of a model's directory."""
    return Path(shutil.copytree(HERE / "many_langs_published", tmp_path / "model"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_its_own_programs(variant: str) -> None:
    assert_vectors(load_bilm(HERE / variant), expected(variant), atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_in_an_archive_and_in_our_layout_it_is_the_same(tmp_path: Path, variant: str) -> None:
    with zipfile.ZipFile(tmp_path / "136.zip", "w") as file:
        for path in (HERE / variant).iterdir():
            file.write(path, path.name)
    bilm = load_bilm(tmp_path / "136.zip")
    native.write(bilm.config, bilm.state_dict(), tmp_path / "native")
    again = load_bilm(tmp_path / "native")
    assert again.config == bilm.config
    assert_vectors(again, expected(variant), atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_map_of_names_runs_both_ways(variant: str) -> None:
    bilm = load_bilm(HERE / variant)
    for name, layout in (("encoder.pkl", encoder), ("token_embedder.pkl", token_embedder)):
        stored = torch.load(HERE / variant / name, weights_only=True)
        for dataset in layout(bilm.config):
            back = dataset.from_tensors(bilm.state_dict())
            np.testing.assert_allclose(back, stored[dataset.name].numpy(), rtol=0, atol=5e-7)


def test_the_older_kind_of_pkl(place: Path) -> None:
    """As torch 0.4 wrote the published files."""
    for name in ("encoder.pkl", "token_embedder.pkl"):
        stored = torch.load(place / name, weights_only=True)
        torch.save(stored, place / name, _use_new_zipfile_serialization=False)
        assert not zipfile.is_zipfile(place / name)
    assert_vectors(load_bilm(place), expected("many_langs_published"), atol=1e-5)


def test_the_older_kind_of_pkl_from_a_gpu(place: Path) -> None:
    """As the published files are: their storages say that they were on a GPU."""
    for name in ("encoder.pkl", "token_embedder.pkl"):
        stored = torch.load(place / name, weights_only=True)
        torch.save(stored, place / name, _use_new_zipfile_serialization=False)
        whole = (place / name).read_bytes()
        for here, there in ((b"ctorch\nFloat", b"ctorch.cuda\nFloat"), (b"X\3\0\0\0cpu", CUDA)):
            assert here in whole
            whole = whole.replace(here, there)
        (place / name).write_bytes(whole)
    assert_vectors(load_bilm(place), expected("many_langs_published"), atol=1e-5)


def test_found_by_a_file_and_described(place: Path) -> None:
    for path in (place, place / "encoder.pkl", place / "token_embedder.pkl"):
        source = find(path)
        assert source.layout == many_langs.LAYOUT
        assert source.inspect() == source.read()[0]
        assert [p.name for p in source.files][:3] == ["config.json", "char.dic", "word.dic"]


def test_boundaries_differ_from_words_and_a_text_cannot_spell_them(place: Path) -> None:
    bilm = load_bilm(place)
    assert not np.array_equal(bilm.spelling.boundaries()[:1, :50], bilm.spelling.words(["<bos>"]))
    one, two = bilm.spelling.words(["日本日本日本", "x" * 60])
    assert two[-1] == bilm.spelling.words(["x" * 48])[0, -1]
    assert one[0] == two[0] == bilm.spelling.boundaries()[0, 0]


def test_published_sizes_need_not_be_beside(place: Path) -> None:
    (place / "config.json").write_text(
        json.dumps({"config_path": f"../configs/{many_langs_config.PUBLISHED_SIZES}"})
    )
    with pytest.raises(
        BiLMError, match=r"'word_emb_layer.embedding.weight' is \(\d+, 5\) of torch"
    ):
        load_bilm(place)


def test_an_ideographic_space_may_have_been_lost(place: Path) -> None:
    lexicon = (place / "char.dic").read_text(encoding="utf8")
    assert "\u3000\t" in lexicon
    (place / "char.dic").write_text(lexicon.replace("\u3000\t", "\t"), encoding="utf8")
    assert_vectors(load_bilm(place), expected("many_langs_published"), atol=1e-5)


def test_unicode_characters_have_no_options_json(place: Path, tmp_path: Path) -> None:
    bilm = load_bilm(place)
    with pytest.raises(BiLMError, match=r"Unicode characters has no options\.json"):
        hdf5.write(bilm.config, bilm.state_dict(), tmp_path / "o.json", tmp_path / "w.hdf5")
    assert not (tmp_path / "w.hdf5").exists()


def refusal(place: Path) -> str:
    messages = []
    for use in (lambda: find(place).inspect(), lambda: load_bilm(place)):
        with pytest.raises(BiLMError) as error:
            use()
        messages.append(str(error.value))
    assert messages[0] == messages[1] and str(place) in messages[0]
    assert "\n" not in messages[0] and messages[0].endswith(".")
    return messages[0]


def change_sizes(place: Path, section: str, key: str, value: object) -> None:
    sizes = json.loads((place / "sizes.json").read_text())
    if value is None:
        del sizes[section][key]
    else:
        sizes[section][key] = value
    (place / "sizes.json").write_text(json.dumps(sizes))


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("encoder", "name", "lstm", "encoder.name is 'lstm', expected 'elmo'"),
        ("token_embedder", "name", "lstm", "token_embedder.name is 'lstm', expected 'cnn'"),
        ("encoder", "dim", 10, "expected (40, 6) of floats"),
        ("encoder", "dim", None, "lacks the field 'dim'"),
        ("token_embedder", "filters", 3, "does not describe a biLM"),
        ("token_embedder", "activation", "gelu", "activation is 'gelu', expected 'relu' or 'tanh'"),
        ("token_embedder", "word_dim", 4, "'word_emb_layer.embedding.weight' is "),
        ("token_embedder", "word_dim", 0, "expected (6, 14) of floats"),
        ("token_embedder", "char_dim", "3", "char_dim is '3', expected a whole number"),
    ],
)
def test_sizes_that_do_not_fit_are_named(
    place: Path, section: str, key: str, value: object, said: str
) -> None:
    change_sizes(place, section, key, value)
    assert said in refusal(place)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("char.dic", "a\t0\nb\t0\n", "line 2 is 'b\\t0', expected an entry, a tab and a number"),
        ("char.dic", "a\tb\n", "line 1 is 'a\\tb'"),
        ("char.dic", "a\t0\nb\t7\n", "expected ids without gaps"),
        ("char.dic", "a\t0\n", "lexicon has no character '<bow>'"),
        ("word.dic", "a\t0\n", "lexicon has no word '<oov>'"),
        ("word.dic", "a\t0\na\t1\n", "words that stand in it twice"),
        ("config.json", '{"config_path": 3}', "config_path is 3, expected a file's name"),
        ("config.json", '{"config_path": "no.json"}', "put the file beside it"),
        ("sizes.json", "[]", "is [], expected an object"),
        ("sizes.json", "{}", "token_embedder is None, expected an object"),
    ],
)
def test_texts_that_are_damaged_are_named(place: Path, name: str, text: str, said: str) -> None:
    (place / name).write_text(text)
    assert said in refusal(place)


def test_a_file_beside_the_directory_is_not_read(place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text((place / "sizes.json").read_text())
    (place / "config.json").write_text('{"config_path": "../outside.json"}')
    assert "put the file beside it" in refusal(place)


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl", "char.dic", "word.dic"])
def test_missing_and_cut_files_are_named(place: Path, name: str) -> None:
    whole = (place / name).read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 3):
        (place / name).write_bytes(whole[:length])
        assert f"{place / name}" in refusal(place) or name.endswith("dic")
    (place / name).unlink()
    assert f"{place / name} cannot be read" in refusal(place)


def test_swapped_files_and_other_types_are_named(place: Path) -> None:
    encoder_, other = place / "encoder.pkl", place / "token_embedder.pkl"
    stored = torch.load(encoder_, weights_only=True)
    name = "forward_layer_0.state_linearity.bias"
    torch.save({**stored, name: stored[name].int()}, encoder_)
    assert f"the tensor '{name}' is (36,) of torch.int32" in refusal(place)
    torch.save({**stored, name: torch.full_like(stored[name], torch.nan)}, encoder_)
    with pytest.raises(BiLMError, match=f"'{name}' holds NaN or infinite values"):
        load_bilm(place)
    torch.save([1, 2], encoder_)
    assert "holds no tensors by name" in refusal(place)
    shutil.copy(other, encoder_)
    assert "lacks the tensor 'forward_layer_0" in refusal(place)


def test_unknown_words_share_a_vector_but_not_their_spelling(place: Path) -> None:
    bilm = load_bilm(place)
    a, b = bilm.spelling.words(["qqqq", "wwww"])
    assert a[-1] == b[-1]
    (one,), (two,) = (Embedder(bilm)([[word]]) for word in ("qqqq", "foxfox"))
    assert not np.array_equal(one, two)
