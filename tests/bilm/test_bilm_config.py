import copy
import json
import math

import pytest
from conftest import SMALL
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.config import OPTION_PATHS, OPTIONAL, BiLMConfig
from spacy_elmo.bilm.errors import BiLMError

SIZES = st.integers(1, 9)
BOUNDS = st.none() | st.floats(0.1, 10)
CONFIGS = st.builds(
    BiLMConfig,
    char_dim=SIZES,
    filters=st.lists(st.tuples(st.integers(1, 7), SIZES), min_size=1, max_size=4).map(tuple),
    n_highway=st.integers(0, 3),
    projection_dim=SIZES,
    cell_dim=st.integers(9, 20),
    n_layers=SIZES,
    max_characters=st.integers(7, 50),
    activation=st.sampled_from(["relu", "tanh"]),
    cell_clip=BOUNDS,
    projection_clip=BOUNDS,
    skip_connections=st.booleans(),
)
WRONG = {
    "char_dim": ["4", 4.0, 0, -1, True, None, [4]],
    "filters": ["1,4", 7, None, [], {}, [3], [[1]], [[1, 2, 3]], [["1", 4]], [[1, 0]], [[51, 4]]],
    "n_highway": ["1", -1, 1.0, False],
    "projection_dim": ["8", 0, 8.0, None, 17],
    "cell_dim": ["16", 0, 16.0, None, {}],
    "n_layers": ["2", 0, 2.5, None, True],
    "max_characters": ["50", 2, 50.0, None],
    "n_characters": ["262", 260, 0, None, [262]],
    "activation": ["gelu", "ReLU", 1, None, ["relu"]],
    "cell_clip": ["3", 0, -3, True, [3], math.nan],
    "projection_clip": ["3", 0, -3, True, {}, math.nan],
    "skip_connections": ["false", 0, 1, []],
}
WRONG_PAIRS = [(field, value) for field, values in WRONG.items() for value in values]
REQUIRED = [field for field in OPTION_PATHS if field not in OPTIONAL]


def options_without(path):
    return options_with(path, None, drop=True)


def options_with(path, value, *, drop=False):
    options = copy.deepcopy(SMALL.to_options())
    place = options
    for key in path[:-1]:
        place = place[key]
    if drop:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return options


@settings(deadline=None)
@given(CONFIGS)
def test_options_round_trip(config):
    parsed = json.loads(json.dumps(config.to_options()))
    assert BiLMConfig.from_options(parsed, "options.json") == config


@settings(deadline=None)
@given(CONFIGS)
def test_dict_round_trip(config):
    parsed = json.loads(json.dumps(config.to_dict()))
    assert BiLMConfig.from_dict(parsed, "config.json") == config


def test_published_options_are_read():
    """As published with the original ELMo, parts of no use here included."""
    options = {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": 512,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": 4096,
            "n_layers": 2,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
            "n_highway": 2,
            "embedding": {"dim": 16},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
        "bidirectional": True,
        "n_tokens_vocab": 793471,
    }
    config = BiLMConfig.from_options(options, "options.json")
    assert (config.n_filters, config.width, config.n_characters) == (2048, 1024, 261)
    assert config.skip_connections and config.projects_characters and config.projects_cells


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_option_is_named(field):
    path = OPTION_PATHS[field]
    with pytest.raises(BiLMError) as error:
        BiLMConfig.from_options(options_without(path), "some/options.json")
    assert f"some/options.json lacks the field '{'.'.join(path)}'" in str(error.value)
    assert "use the options.json that was published with these weights" in str(error.value)


@pytest.mark.parametrize("path", [("lstm",), ("char_cnn",), ("char_cnn", "embedding")])
def test_a_missing_section_is_named(path):
    with pytest.raises(BiLMError, match=rf"lacks the field '{'.'.join(path)}'"):
        BiLMConfig.from_options(options_without(path), "options.json")


@pytest.mark.parametrize("path", [("lstm",), ("char_cnn",), ("char_cnn", "embedding")])
@pytest.mark.parametrize("value", [None, 3, "lstm", []])
def test_a_section_that_is_no_object_is_named(path, value):
    with pytest.raises(BiLMError, match=rf"{'.'.join(path)} is .*, expected an object"):
        BiLMConfig.from_options(options_with(path, value), "options.json")


@pytest.mark.parametrize("options", [None, [], "options", 1])
def test_options_that_are_no_object_are_refused(options):
    with pytest.raises(BiLMError, match=r"options\.json: the file is .*, expected an object"):
        BiLMConfig.from_options(options, "options.json")


@pytest.mark.parametrize(("field", "default"), OPTIONAL.items())
def test_what_bilm_tf_reads_with_a_default_may_be_missing(field, default):
    config = BiLMConfig.from_options(options_without(OPTION_PATHS[field]), "options.json")
    assert getattr(config, field) == default


@pytest.mark.parametrize(("field", "value"), WRONG_PAIRS)
def test_a_wrong_option_is_named_with_the_remedy(field, value):
    with pytest.raises(BiLMError) as error:
        BiLMConfig.from_options(options_with(OPTION_PATHS[field], value), "some/options.json")
    message = str(error.value)
    assert message.startswith(f"some/options.json: {'.'.join(OPTION_PATHS[field])} ")
    assert "expected" in message
    assert message.endswith("use the options.json that was published with these weights.")


@pytest.mark.parametrize(("field", "value"), WRONG_PAIRS)
def test_a_wrong_value_in_our_own_config_is_named(field, value):
    with pytest.raises(BiLMError) as error:
        BiLMConfig.from_dict({**SMALL.to_dict(), field: value}, "some/config.json")
    assert str(error.value).startswith(f"some/config.json: {field} ")
    assert "expected" in str(error.value)
    assert str(error.value).endswith("use the config.json that was saved with these weights.")


@pytest.mark.parametrize("field", ["char_dim", "filters", "projection_dim", "n_layers"])
def test_a_value_missing_in_our_own_config_is_named(field):
    values = SMALL.to_dict()
    del values[field]
    with pytest.raises(BiLMError, match=rf"^some/config\.json lacks the field '{field}'"):
        BiLMConfig.from_dict(values, "some/config.json")


def test_an_unknown_key_in_our_own_config_is_named():
    with pytest.raises(BiLMError, match=r"some/config\.json has the unknown key 'colour'"):
        BiLMConfig.from_dict({**SMALL.to_dict(), "colour": 1}, "some/config.json")


@pytest.mark.parametrize("n_characters", [261, 262])
def test_both_counts_of_characters_mean_261_rows(n_characters):
    options = options_with(OPTION_PATHS["n_characters"], n_characters)
    assert BiLMConfig.from_options(options, "options.json").n_characters == 261


def test_a_larger_table_of_characters_is_counted_with_its_mask_row():
    options = options_with(OPTION_PATHS["n_characters"], 301)
    config = BiLMConfig.from_options(options, "options.json")
    assert config.n_characters == 300
    assert config.to_options() == options


def test_options_count_the_mask_row():
    assert SMALL.to_options()["char_cnn"]["n_characters"] == 262
