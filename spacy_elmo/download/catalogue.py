"""The published biLMs: names, addresses, and what their publishers say of them."""

import re
from dataclasses import dataclass

from ..bilm.errors import BiLMError

NOT_STATED = "not stated"
# Said in allenai/allennlp issue 1462, of the models that AllenNLP trained.
UNRESTRICTED = "no restrictions"
# HIT-SCIR/ELMoForManyLangs issue 64.
MIT = "MIT"
# Kutuzov et al. 2021, "Large-Scale Contextualised Language Modelling for Norwegian".
CC_BY = "CC BY 4.0"
ALLENNLP = "https://allennlp.s3.amazonaws.com/models/elmo"
NLPL = "http://vectors.nlpl.eu/repository"


@dataclass(frozen=True)
class File:
    """url (str): Where it is. sha256 (str | None): Where its publisher states it."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Published:
    """megabytes (int | None): To fetch, about; None where it is not stated. origin (str): What it was
    trained on, by whom it is published. licence (str): Of the weights.
    """

    name: str
    language: str
    files: tuple[File, ...]
    megabytes: int | None
    origin: str
    licence: str = NOT_STATED


def get(name: str) -> Published:
    """The published biLM of a name; nlpl-ID is any of that repository, known here or not.

    Raises BiLMError where there is none.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if match := re.fullmatch(r"nlpl-(\d{1,6})", name):
        return _nlpl(int(match[1]), NOT_STATED, "NLPL repository")
    known = ", ".join(n for n in CATALOGUE if not n.startswith(("nlpl-", "many-langs-")))
    raise BiLMError(
        f"No published biLM '{name}': expected {known}, many-langs-LANGUAGE or nlpl-ID "
        "(python -m spacy elmo download --list)."
    )


def _allennlp(
    name: str,
    language: str,
    path: str,
    options: str,
    megabytes: int,
    origin: str,
    licence: str = NOT_STATED,
) -> Published:
    files = (File(f"{ALLENNLP}/{options}"), File(f"{ALLENNLP}/{path}"))
    return Published(name, language, files, megabytes, f"AllenNLP: {origin}", licence)


def _sizes(name: str, sizes: str, megabytes: int, origin: str) -> Published:
    """One that AllenNLP trained: its files are named after its sizes."""
    path = f"{sizes}/elmo_{sizes}"
    return _allennlp(
        name,
        "English",
        f"{path}_weights.hdf5",
        f"{path}_options.json",
        megabytes,
        origin,
        UNRESTRICTED,
    )


def _nlpl(
    number: int, language: str, origin: str, licence: str = NOT_STATED, *, shelf: int = 20
) -> Published:
    file = File(f"{NLPL}/{shelf}/{number}.zip")
    return Published(f"nlpl-{number}", language, (file,), None, f"NLPL: {origin}", licence)


def _many_langs(number: int, code: str, language: str) -> Published:
    return Published(
        f"many-langs-{code}",
        language,
        (File(f"{NLPL}/11/{number}.zip"),),
        None,
        "ELMoForManyLangs: 20 million words of Wikipedia and Common Crawl (CoNLL 2018)",
        MIT,
    )


BILLION = "1 Billion Word Benchmark, news"
# Megabytes are four for a million of the parameters that AllenNLP states.
_PUBLISHED = [
    _sizes("small", "2x1024_128_2048cnn_1xhighway", 54, BILLION),
    _sizes("medium", "2x2048_256_2048cnn_1xhighway", 112, BILLION),
    _sizes("original", "2x4096_512_2048cnn_2xhighway", 374, BILLION),
    _sizes(
        "original-5.5b",
        "2x4096_512_2048cnn_2xhighway_5.5B",
        374,
        "Wikipedia and news of WMT 2008-2012, 5.5 billion words",
    ),
    _allennlp(
        "pubmed",
        "English",
        "contributed/pubmed/elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
        "contributed/pubmed/elmo_2x4096_512_2048cnn_2xhighway_options.json",
        374,
        "PubMed, contributed",
    ),
    _allennlp(
        "portuguese",
        "Portuguese",
        "contributed/pt/elmo_pt_weights.hdf5",
        "contributed/pt/elmo_pt_options.json",
        374,
        "contributed",
    ),
    _nlpl(195, "Russian", "National Corpus and Wikipedia, December 2018, RusVectores", shelf=11),
    _nlpl(196, "Russian", "the same, lemmas", shelf=11),
    _nlpl(199, "Russian", "Taiga, lemmas, 2019, RusVectores"),
    _nlpl(201, "German", NOT_STATED),
    _nlpl(202, "Swedish", NOT_STATED),
    _nlpl(203, "Latin", NOT_STATED),
    _nlpl(209, "English", NOT_STATED),
    _nlpl(210, "Norwegian", "Wikipedia of September 2020, lemmas", CC_BY),
    _nlpl(211, "Norwegian", "Wikipedia of September 2020, tokens", CC_BY),
    _nlpl(217, "Norwegian", "NorELMo30: Wikipedia and Norsk Aviskorpus", CC_BY),
    _nlpl(218, "Norwegian", "NorELMo100: Wikipedia and Norsk Aviskorpus", CC_BY),
]
# From 136 on, in the order in which their publisher numbered them.
_LANGUAGES = (
    "ar Arabic, bg Bulgarian, ca Catalan, cs Czech, cu Old Church Slavonic, da Danish, de German, "
    "el Greek, en English, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr French, "
    "ga Irish, gl Galician, grc Ancient Greek, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, "
    "id Indonesian, it Italian, ja Japanese, ko Korean, la Latin, lv Latvian, nl Dutch, "
    "nb Norwegian Bokmål, nn Norwegian Nynorsk, pl Polish, pt Portuguese, ro Romanian, ru Russian, "
    "sk Slovak, sl Slovene, sv Swedish, tr Turkish, ug Uyghur, uk Ukrainian, ur Urdu, "
    "vi Vietnamese, zh Chinese"
)
for _number, _language in enumerate(_LANGUAGES.split(", "), 136):
    _PUBLISHED.append(_many_langs(_number, *_language.split(" ", 1)))

CATALOGUE = {published.name: published for published in _PUBLISHED}
