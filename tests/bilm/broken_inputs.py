"""A corpus of what is not a biLM, is damaged or would harm: each a function that makes one."""

import json
import pickle
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import safetensors.torch
import torch
from conftest import Trap
from references import HERE, unpack_bilm_tf

from spacy_elmo.bilm.conversion import convert
from spacy_elmo.bilm.formats import archive
from spacy_elmo.bilm.loading import find

Break = Callable[[Path], Path]
INDEX, DATA = "model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"
CORPUS: dict[str, Break] = {}


def broken(change: Break) -> Break:
    """Add to the corpus: a function of a place with a whole biLM of each layout in it, which damages
    one and gives its path.
    """
    CORPUS[change.__name__.replace("_", " ")] = change
    return change


def make_whole(place: Path) -> None:
    """A biLM of each layout."""
    place.mkdir()
    unpack_bilm_tf("published", place / "hdf5")
    convert(find(place / "hdf5"), place / "native", "native")
    shutil.copytree(HERE / "bilm_tf_checkpoint", place / "checkpoint")
    shutil.copytree(HERE / "many_langs_published", place / "many_langs")
    pack(place / "hdf5", place / "217.zip")


def pack(directory: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(directory.iterdir()):
            file.write(path, path.name)
    return target


def exchange(directory: Path, one: str, other: str) -> Path:
    (directory / one).rename(directory / "between")
    (directory / other).rename(directory / one)
    (directory / "between").rename(directory / other)
    return directory


def cut(path: Path, part: float) -> Path:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    return path


for _name in (
    "hdf5/model.hdf5",
    "hdf5/options.json",
    "native/weights.safetensors",
    "native/config.json",
    f"checkpoint/{INDEX}",
    f"checkpoint/{DATA}",
    "many_langs/encoder.pkl",
    "many_langs/token_embedder.pkl",
    "217.zip",
):
    for _part in (0.0, 0.02, 0.5, 0.99):

        def _cut(place: Path, name: str = _name, part: float = _part) -> Path:
            path = cut(place / name, part)
            return path if path.parent == place else path.parent

        CORPUS[f"{_name} cut at {_part:.0%}"] = _cut


@broken
def options_of_another_model(place: Path) -> Path:
    unpack_bilm_tf("short_words", place / "other")
    shutil.copy(place / "other" / "options.json", place / "hdf5")
    return place / "hdf5"


@broken
def weights_and_options_exchanged(place: Path) -> Path:
    return exchange(place / "hdf5", "model.hdf5", "options.json")


@broken
def encoder_and_token_embedder_exchanged(place: Path) -> Path:
    return exchange(place / "many_langs", "encoder.pkl", "token_embedder.pkl")


@broken
def characters_and_words_exchanged(place: Path) -> Path:
    shutil.copy(place / "many_langs" / "word.dic", place / "many_langs" / "char.dic")
    return place / "many_langs"


def retype(place: Path, dtype: str) -> Path:
    with h5py.File(place / "hdf5" / "model.hdf5", "a") as file:
        stored = file["CNN_proj/W_proj"][()]
        del file["CNN_proj/W_proj"]
        file["CNN_proj/W_proj"] = stored.astype(dtype)
    return place / "hdf5"


@broken
def hdf5_in_float64(place: Path) -> Path:
    return retype(place, "f8")


@broken
def hdf5_in_half_precision(place: Path) -> Path:
    return retype(place, "f2")


@broken
def hdf5_of_strings(place: Path) -> Path:
    return retype(place, "S4")


def change_native(place: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> Path:
    path = place / "native" / "weights.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    tensors["forward_lm.layers.0.bias"] = change(tensors["forward_lm.layers.0.bias"])
    safetensors.torch.save_file(tensors, path)
    return path.parent


@broken
def native_quantised(place: Path) -> Path:
    return change_native(place, lambda tensor: tensor.to(torch.int8))


@broken
def native_with_nan(place: Path) -> Path:
    return change_native(place, lambda tensor: tensor * torch.nan)


@broken
def hdf5_with_nan(place: Path) -> Path:
    with h5py.File(place / "hdf5" / "model.hdf5", "a") as file:
        file["char_embed"][3, 1] = np.nan
    return place / "hdf5"


@broken
def checkpoint_with_infinity(place: Path) -> Path:
    path = place / "checkpoint" / DATA
    values = np.fromfile(path, "<f4")
    values[:] = np.inf
    values.tofile(path)
    return path.parent


def change_pkl(place: Path, change: Callable[[torch.Tensor], object], **how: bool) -> Path:
    path = place / "many_langs" / "encoder.pkl"
    stored = torch.load(path, weights_only=True)
    name = "backward_layer_1.state_linearity.bias"
    torch.save({**stored, name: change(stored[name])}, path, **how)
    return path.parent


@broken
def pkl_with_nan(place: Path) -> Path:
    return change_pkl(place, lambda tensor: tensor * torch.nan)


@broken
def pkl_of_whole_numbers(place: Path) -> Path:
    return change_pkl(place, lambda tensor: tensor.long())


def trap(place: Path) -> Trap:
    return Trap(place.parent / "trace")


@broken
def pkl_with_code(place: Path) -> Path:
    return change_pkl(place, lambda _: trap(place))


@broken
def older_pkl_with_code(place: Path) -> Path:
    return change_pkl(place, lambda _: trap(place), _use_new_zipfile_serialization=False)


@broken
def plain_pickle_with_code(place: Path) -> Path:
    (place / "many_langs" / "token_embedder.pkl").write_bytes(pickle.dumps(trap(place), 2))
    return place / "many_langs"


@broken
def pickle_with_code_for_hdf5(place: Path) -> Path:
    (place / "hdf5" / "model.hdf5").write_bytes(pickle.dumps(trap(place)))
    return place / "hdf5" / "model.hdf5"


@broken
def pickle_with_code_for_safetensors(place: Path) -> Path:
    (place / "native" / "weights.safetensors").write_bytes(pickle.dumps(trap(place)))
    return place / "native"


@broken
def pickle_with_code_in_a_zip(place: Path) -> Path:
    pkl_with_code(place)
    return pack(place / "many_langs", place / "136.zip")


@broken
def sizes_outside_the_directory(place: Path) -> Path:
    (place / "many_langs" / "sizes.json").rename(place / "sizes.json")
    (place / "many_langs" / "config.json").write_text('{"config_path": "../sizes.json"}')
    return place / "many_langs"


@broken
def hdf5_that_links_to_another_file(place: Path) -> Path:
    (place / "hdf5" / "model.hdf5").rename(place / "elsewhere.hdf5")
    with h5py.File(place / "hdf5" / "model.hdf5", "w") as file:
        for name in ("char_embed", "CNN", "CNN_proj", "CNN_high_0", "CNN_high_1"):
            file[name] = h5py.ExternalLink(str(place / "elsewhere.hdf5"), f"/{name}")
    return place / "hdf5"


def add_member(place: Path, name: str, content: str = "evil", attributes: int = 0) -> Path:
    with zipfile.ZipFile(place / "217.zip", "a", zipfile.ZIP_DEFLATED) as file:
        member = zipfile.ZipInfo(name)
        member.external_attr = attributes
        member.compress_type = zipfile.ZIP_DEFLATED
        file.writestr(member, content)
    return place / "217.zip"


@broken
def zip_with_a_path_upwards(place: Path) -> Path:
    return add_member(place, "../evil")


@broken
def zip_with_a_path_from_the_root(place: Path) -> Path:
    return add_member(place, str(place.parent / "evil"))


@broken
def zip_with_a_path_of_windows(place: Path) -> Path:
    return add_member(place, "C:\\evil")


@broken
def zip_with_a_link(place: Path) -> Path:
    return add_member(place, "link", "/etc/passwd", (stat.S_IFLNK | 0o777) << 16)


@broken
def zip_bomb(place: Path) -> Path:
    return add_member(place, "zeros", "0" * (archive.SMALLEST_BOMB + 1))


@broken
def zip_bomb_of_small_members(place: Path) -> Path:
    content = "0" * (archive.SMALLEST_BOMB // 8)
    for i in range(9):
        add_member(place, f"zeros/{i}", content)
    return place / "217.zip"


@broken
def zip_in_a_zip(place: Path) -> Path:
    (place / "outer").mkdir()
    (place / "217.zip").rename(place / "outer" / "217.zip")
    return pack(place / "outer", place / "outer.zip")


@broken
def zip_that_is_encrypted(place: Path) -> Path:
    whole = bytearray((place / "217.zip").read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for match in re.finditer(re.escape(mark), bytes(whole)):
            whole[match.start() + flags] |= 1
    (place / "217.zip").write_bytes(whole)
    return place / "217.zip"


@broken
def zip_of_something_else(place: Path) -> Path:
    (place / "other").mkdir()
    (place / "other" / "model.txt").write_text("word 0.1 0.2")
    return pack(place / "other", place / "other.zip")


@broken
def two_hdf5_in_a_directory(place: Path) -> Path:
    shutil.copy(place / "hdf5" / "model.hdf5", place / "hdf5" / "more.hdf5")
    return place / "hdf5"


@broken
def two_layouts_in_a_directory(place: Path) -> Path:
    shutil.copytree(place / "native", place / "hdf5", dirs_exist_ok=True)
    return place / "hdf5"


@broken
def two_checkpoints_in_a_directory(place: Path) -> Path:
    for name in (INDEX, DATA):
        shutil.copy(place / "checkpoint" / name, place / "checkpoint" / name.replace("7", "9"))
    (place / "checkpoint" / "checkpoint").unlink()
    return place / "checkpoint"


@broken
def a_transformer(place: Path) -> Path:
    (place / "native" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    return place / "native"


@broken
def a_model_of_allennlp(place: Path) -> Path:
    embedder = {"type": "elmo", "options_file": "o.json", "weight_file": "w.hdf5"}
    config = {"model": {"type": "crf_tagger", "embedders": [{"elmo": embedder}]}}
    (place / "native" / "config.json").write_text(json.dumps(config))
    return place / "native"


@broken
def a_tar_archive(place: Path) -> Path:
    with tarfile.open(place / "model.tar.gz", "w:gz") as file:
        file.add(place / "hdf5", "hdf5")
    return place / "model.tar.gz"


@broken
def a_saved_model(place: Path) -> Path:
    (place / "module" / "variables").mkdir(parents=True)
    (place / "module" / "saved_model.pb").write_bytes(b"\x08\x01")
    return place / "module"


@broken
def a_pointer_of_git_lfs(place: Path) -> Path:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
    (place / "hdf5" / "model.hdf5").write_text(pointer)
    return place / "hdf5"


@broken
def a_web_page(place: Path) -> Path:
    (place / "hdf5" / "model.hdf5").write_text("\n<!DOCTYPE html><title>Sign in</title>")
    return place / "hdf5" / "model.hdf5"


@broken
def token_vectors_alone(place: Path) -> Path:
    return Path(shutil.copy(HERE / "bilm_tf_tokens.hdf5", place))


@broken
def a_bilm_of_whole_words(place: Path) -> Path:
    with h5py.File(place / "hdf5" / "model.hdf5", "a") as file:
        file.move("char_embed", "embedding")
    return place / "hdf5"


@broken
def an_empty_directory(place: Path) -> Path:
    (place / "empty").mkdir()
    return place / "empty"


@broken
def a_path_that_is_not_there(place: Path) -> Path:
    return place / "none"
