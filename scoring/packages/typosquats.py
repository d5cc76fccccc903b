"""Recognises typosquats: names that look like a widely known one. Pure.

Measured on 95 malicious Python names against the names that they imitate, with 664 honest names beside them:
tests/scoring/packages/test_typosquats.py shows the results.

Widely known names come from our own list by ecosystem (known/*.txt) and from the operator.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal

from ingest.lookups.osv import ECOSYSTEMS, normalised

Kind = Literal["spelling", "separators", "lookalike", "order", "scope", "affix", "compound"]
Words = tuple[str, ...]
SHORTEST = 4  # letters: one edit of a shorter name gives too many honest names
FAR_FROM = 8  # letters of the longer name; from this length on two edits count
LONGEST = 300  # characters of a name that is looked at
_SEPARATORS = re.compile(r"[-_./@:\s]+")
# Words that imitations add to look like an edition of a known name, and that honest projects rarely choose.
_EDITION_WORDS = """2 3 js node lite light pro plus dev beta alpha new next latest official original secure safe fixed
patched updated fast faster simd turbo darwin linux windows macos x64 x86 arm64 amd64 free compat"""
_AFFIXES = frozenset(_EDITION_WORDS.split())
# Editions that honest projects do publish: one of these in place of another is not a misspelling.
_VARIANTS = """cpu gpu cuda rocm sync async core client server common types api cli sdk docs test tests"""
_EDITIONS = frozenset(_VARIANTS.split())
_LANGUAGE = frozenset({"py", "python", "rs", "rust", "go", "rb", "ruby"})  # words in names of language bindings
_OWNER_AFFIXES = frozenset({"go", "golang", "io", "org", "dev", "official", "inc", "hq"})
_LOOKALIKES = str.maketrans("01345789$", "oleastbgs")


@dataclass(frozen=True, slots=True)
class Imitation:
    """The known name that a name imitates, the kind of imitation, and the edits (0: only order or separators)."""

    of: str
    kind: Kind
    edits: int = 0


@dataclass(frozen=True)
class KnownNames:
    """Widely known names of one ecosystem, in its registry's spelling."""

    names: frozenset[str]

    @cached_property
    def bare(self) -> Mapping[str, str]:
        """Map letters without separators to names."""
        return {bare(name): name for name in sorted(self.names, reverse=True)}

    @cached_property
    def by_look(self) -> Mapping[str, str]:
        return {appearance(name): name for name in sorted(self.names, reverse=True)}

    @cached_property
    def bags(self) -> Mapping[Words, str]:
        """Map sorted words to names of several words."""
        return {tuple(sorted(words(name))): name for name in sorted(self.names) if len(words(name)) > 1}

    @cached_property
    def by_length(self) -> Mapping[int, list[str]]:
        """Return the letters of all names, by length."""
        letters_by_length: dict[int, list[str]] = {}
        for letters in self.bare:
            letters_by_length.setdefault(len(letters), []).append(letters)
        return letters_by_length

    @cached_property
    def owners(self) -> frozenset[str]:
        """Return the npm scopes and Go module owners of known names; an owner may choose any name below."""
        return frozenset(owner for name in self.names if (owner := owner_of(name)))


def words(name: str) -> Words:
    """Split a name at its separators, in lower case."""
    return tuple(part for part in _SEPARATORS.split(name.lower()) if part)


def bare(name: str) -> str:
    """Return a name without separators."""
    return "".join(words(name))


def owner_of(name: str) -> str:
    """Return `@scope` of a scoped name or `host/owner` of a module's path; "" without one."""
    parts = name.split("/")
    if name.startswith("@"):
        return parts[0] if len(parts) > 1 else ""
    return "/".join(parts[:2]) if len(parts) > 2 else ""


def appearance(name: str) -> str:
    """Return the name as it looks: letters of other scripts and digits become similar Latin letters."""
    text = name.lower()
    if not text.isascii():
        text = "".join(_latin(character) for character in text)
    text = text.translate(_LOOKALIKES)
    return text.replace("rn", "m").replace("vv", "w").replace("i", "l")


@lru_cache(maxsize=4096)
def _latin(character: str) -> str:
    from confusable_homoglyphs import confusables  # .04 s, for rare names

    confusable = (
        confusables.is_confusable(character, greedy=True, preferred_aliases=[]) if not character.isascii() else False
    )
    homoglyphs = [homoglyph["c"] for homoglyph in confusable[0]["homoglyphs"]] if confusable else []
    return next(
        (homoglyph.lower() for homoglyph in homoglyphs if len(homoglyph) == 1 and homoglyph.isascii()), character
    )


def imitation(name: str, known: KnownNames) -> Imitation | None:
    """Return the imitation that a name is; None for a known name or owner, and for a name that resembles none.

    `name` is in its registry's spelling.
    """
    name = name[:LONGEST]
    if name in known.names or not bare(name) or owner_of(name) in known.owners:
        return None
    return next((result for rule in _RULES if (result := rule(name, known))), None)


def _lookalike(name: str, known: KnownNames) -> Imitation | None:
    original = known.by_look.get(appearance(name))
    return Imitation(original, "lookalike", 1) if original and len(original) >= SHORTEST else None


def _separators(name: str, known: KnownNames) -> Imitation | None:
    original = known.bare.get(bare(name))
    if original is None or len(bare(original)) < SHORTEST:
        return None
    return Imitation(original, "scope" if ("/" in original) != ("/" in name) else "separators")


def _order(name: str, known: KnownNames) -> Imitation | None:
    original = known.bags.get(tuple(sorted(words(name))))
    return Imitation(original, "order") if original else None


def _spelling(name: str, known: KnownNames) -> Imitation | None:
    match = nearest(bare(name), known)
    if match is None:
        return None
    original, edits = known.bare[match[0]], match[1]
    is_honest = (
        _is_edition(words(name), words(original))
        or _is_fork(name, original)
        or not _is_alike(words(name), words(original))
    )
    return None if is_honest else Imitation(original, "spelling", edits)


def nearest(letters: str, known: KnownNames) -> tuple[str, int] | None:
    """Return the nearest known letters within the allowed edits for their length, and the number of edits.

    Two edits require the same first letter: all 14 such names in the measurement keep it, honest ones often do not.
    """
    from rapidfuzz.distance import DamerauLevenshtein  # .05 s, only for new dependencies

    best: tuple[str, int] | None = None
    for length in range(len(letters) - 2, len(letters) + 3):
        longer = max(length, len(letters))
        edits_allowed = _edits_of(longer)
        if abs(length - len(letters)) > edits_allowed or (best and best[1] == 1):
            continue
        for candidate in known.by_length.get(length, ()):
            allowed = edits_allowed if candidate[0] == letters[0] else min(edits_allowed, 1)
            edits = DamerauLevenshtein.distance(letters, candidate, score_cutoff=allowed)
            if 0 < edits <= allowed and (best is None or edits < best[1]):
                best = candidate, edits
    return best


def _edits_of(length: int) -> int:
    """Return the edits that still leave a name of this length similar."""
    return 2 if length >= FAR_FROM else 1 if length > SHORTEST else 0


def _is_alike(name_words: Words, known_words: Words) -> bool:
    """Return whether each word resembles its counterpart; psd-tools does not imitate pip-tools, nor py-x x."""
    from rapidfuzz.distance import DamerauLevenshtein

    if set(name_words) ^ set(known_words) <= _LANGUAGE:
        return False
    if len(name_words) != len(known_words) or len(name_words) == 1:
        return True
    pairs = [pair for pair in zip(name_words, known_words, strict=True) if pair[0] != pair[1]]
    return all(DamerauLevenshtein.distance(*pair) <= max(1, _edits_of(max(map(len, pair)))) for pair in pairs)


def _is_edition(name_words: Words, known_words: Words) -> bool:
    """Return whether two names differ in one word that is an edition in both; -cpu does not imitate -gpu."""
    pairs = [pair for pair in zip(name_words, known_words, strict=False) if pair[0] != pair[1]]
    return len(name_words) == len(known_words) and len(pairs) == 1 and set(pairs[0]) <= _EDITIONS


def _is_fork(name: str, original: str) -> bool:
    """Return whether a scoped name or a module differs from a known one beyond its owner's spelling.

    A fork under a different owner's name does not imitate the owner.
    """
    return "/" in name and "/" in original and name.rpartition("/")[2] != original.rpartition("/")[2]


def _affix(name: str, known: KnownNames) -> Imitation | None:
    """Find a known name extended to look like an edition: pillow-simd, requests-darwin-lite, typescriptjs."""
    if owner_of(name):
        return _owner_affix(name, known)
    parts = words(name)
    undressed = tuple(part for part in parts if part not in _AFFIXES)
    original = known.bare.get("".join(undressed)) if undressed != parts else None
    if original is None and (glued := bare(name)).endswith("js"):
        original = known.bare.get(glued.removesuffix("js"))
    return (
        Imitation(original, "affix")
        if original and not owner_of(original) and len(bare(original)) >= SHORTEST
        else None
    )


def _owner_affix(name: str, known: KnownNames) -> Imitation | None:
    """Find a module whose owner is a known owner's name with an added word: boltdb-go for boltdb."""
    owner, _, rest = name[len("@") :].partition("/") if name.startswith("@") else name.split("/", 1)[1].partition("/")
    plain_owner = "-".join(part for part in words(owner) if part not in _OWNER_AFFIXES)
    if not plain_owner or plain_owner == owner:
        return None
    original = name.replace(owner, plain_owner, 1)
    return Imitation(original, "scope") if rest and original in known.names else None


def _compound(name: str, known: KnownNames) -> Imitation | None:
    """Find joined known names with one misspelled; correctly spelled joins are mostly honest."""
    parts = words(name)
    if len(parts) < 2 or owner_of(name):
        return None
    for index, part in enumerate(parts):
        other_parts = parts[:index] + parts[index + 1 :]
        if len(part) < FAR_FROM or part in known.bare or not all(other in known.bare for other in other_parts):
            continue
        if (match := nearest(part, known)) and match[1] == 1:
            return Imitation(known.bare[match[0]], "compound", 1)
    return None


_RULES: tuple[Callable[[str, KnownNames], Imitation | None], ...] = (
    _lookalike,
    _separators,
    _order,
    _affix,
    _spelling,
    _compound,
)


FOLDER = Path(__file__).with_name("known")  # a file an ecosystem: names separated by white space, comments after #


@cache
def curated_names(ecosystem: str) -> frozenset[str]:
    """Return the names of our own list in the registry's spelling; empty for an ecosystem without one."""
    file = FOLDER / f"{ecosystem.lower()}.txt"
    if ecosystem not in ECOSYSTEMS or not file.is_file():
        return frozenset()
    lines = (line.partition("#")[0] for line in file.read_text().splitlines())
    return frozenset(normalised(ecosystem, name) for line in lines for name in line.split())


@lru_cache(maxsize=32)
def _known(ecosystem: str, more: frozenset[str]) -> KnownNames:
    return KnownNames(curated_names(ecosystem) | {normalised(ecosystem, name) for name in more})


def known_names(ecosystem: str, popular: Mapping[str, frozenset[str]]) -> KnownNames:
    """Return the known names of an ecosystem: our list and `popular`."""
    return _known(ecosystem, popular.get(ecosystem, frozenset()))
