"""Train the model that reads prose for words to an automated reviewer: `python -m scoring.training.prose`.

It learns from the sentences of prose_grammar.toml, from Django's translations of its own pages, and from the comments
and lines of Django's sources. All of it is in the repository or in the pinned environment, so anybody can build the
same model. It never learns from texts of pull requests.
"""

import base64
import json
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import django
import numpy as np

from scoring.scanners import _prose
from scoring.scanners._normalise import fold
from scoring.scanners._prose import BUCKETS, Model, grams, pieces

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FORMS = ("order", "waiver", "claim", "result", "pressure", "persona")
FULL_STOPS = {"zh": "。", "ja": "。", "hi": "।"}
LOST, BENT, CHANGED = 0.1, 0.15, 0.15  # shares of dropped words, of words with another ending, of changed vowels
VOWELS = ("aeiou", "аеиоуыіє")
ENDINGS = ("", "a", "e", "o", "en", "et", "i")
Phrasing = tuple[str, str]  # language and text


@cache
def grammar() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(Path(__file__).with_name("prose_grammar.toml").read_text(encoding="utf-8"))


def attempts(
    number: int, languages: Collection[str], forms: Collection[str] = FORMS, seed: int = 0
) -> Iterator[Phrasing]:
    """Yield `number` phrasings that speak to a reviewer, the languages in turn."""
    random = Random(seed)  # noqa: S311 - a reproducible draw, not a secret
    order = sorted(languages)
    for count in range(number):
        language = order[count % len(order)]
        yield language, _attempt(random, language, sorted(forms))


def _attempt(random: Random, language: str, forms: list[str]) -> str:
    clauses = grammar()[language]
    reader, first = random.choice(clauses["who"]), random.choice(clauses[random.choice(forms)])
    second = random.choice(clauses[random.choice(forms)])
    stop = FULL_STOPS.get(language, ".")
    shapes = (
        f"{reader}, {first}{stop}",
        f"{reader}: {first}{stop}",
        f"{reader}: {first}{stop} {second}{stop}",
        f"{first}{stop} {second}{stop}",
        f"({reader}) {second}, {first}",
        f"{first}, {reader}{stop}",
    )
    text = random.choice(shapes)
    return random.choice((text, text[0].upper() + text[1:], text[0].upper() + text[1:], text.upper()))


def honest(languages: Collection[str]) -> Iterator[Phrasing]:
    """Yield each honest clause of these languages alone and beside another one, and requests to people."""
    for language in sorted(languages):
        clauses = grammar()[language]["benign"]
        for index, clause in enumerate(clauses):
            other_clause = clauses[index - 3]
            yield language, clause
            yield language, f"{clause[0].upper()}{clause[1:]}. {other_clause[0].upper()}{other_clause[1:]}."
        yield from _requests_to_people(language)


def _requests_to_people(language: str) -> Iterator[Phrasing]:
    """Yield requests of an author to translators, maintainers and readers, in the languages that have them."""
    clauses, stop = grammar()[language], FULL_STOPS.get(language, ".")
    requests = clauses.get("asked", [])
    for index, clause in enumerate(requests):
        for person in clauses["people"]:
            text = f"{person}: {clause}{stop}"
            yield language, text
            yield language, f"{text[0].upper()}{text[1:-1]}{stop} {requests[index - 2]}{stop}"


def disturb(random: Random, text: str) -> str:
    """Drop words and change endings and vowels; the rest is common to related languages."""
    words = [word for word in text.split() if random.random() > LOST] or [text]
    return " ".join(_disturbed_word(random, word) for word in words)


def _disturbed_word(random: Random, word: str) -> str:
    if len(word) > 5 and random.random() < BENT:
        word = word[: -random.choice((1, 2))] + random.choice(ENDINGS)
    return "".join(_disturbed_letter(random, letter) for letter in word)


def _disturbed_letter(random: Random, letter: str) -> str:
    vowels = next((alphabet for alphabet in VOWELS if letter in alphabet), "")
    return random.choice(vowels) if vowels and random.random() < CHANGED else letter


ATTEMPTS = 8_000
TRANSLATED = 400  # sentences of each language
COMMENTS, LINES, STYLES = 6_000, 8_000, 2_000
PENALTY = 8.0  # of the logistic regression: the inverse of its ridge
SEED = 18
LOCALES = {"zh": "zh_Hans", "pt": "pt_BR"}
_ENTRY = re.compile(r'^msgstr(?:\[\d\])? ((?:"(?:[^"\\]|\\.)*"\s*)+)', re.MULTILINE)
_PLACEHOLDER = re.compile(r"%\(?\w*\)?[sd]|\\n|\\")
_COMMENT = re.compile(r"(?:^[ \t]*#.*\n)+|\"\"\"[^\"]{20,600}", re.MULTILINE)


def translations(language: str) -> list[str]:
    """Return sentences of Django's own pages in a language; none without a translation."""
    files = Path(django.__file__).parent.rglob(f"locale/{LOCALES.get(language, language)}/LC_MESSAGES/django.po")
    texts = {
        _PLACEHOLDER.sub(" ", "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', entry[1])))
        for file in files
        for entry in _ENTRY.finditer(file.read_text(encoding="utf-8"))
    }
    return sorted(text for text in texts if len(text) > 15 and "Project-Id-Version" not in text)


def source_texts(random: Random) -> Iterator[str]:
    """Yield comments, docstrings and single lines of Django's own modules, and lines of its pages."""
    sources = [path.read_text(encoding="utf-8") for path in sorted(Path(django.__file__).parent.rglob("*.py"))]
    sources = random.sample(sources, len(sources) // 3)
    comments = [" ".join(match[0].split()) for text in sources for match in _COMMENT.finditer(text)]
    lines = [line.strip() for text in sources for line in text.split("\n") if len(line) > 20]
    yield from random.sample(comments, min(COMMENTS, len(comments)))
    yield from random.sample(lines, min(LINES, len(lines)))
    yield from random.sample(_style_lines(), STYLES)


def _style_lines() -> list[str]:
    """Return lines of Django's style sheets and templates, which have many words and no sentence."""
    kinds = ("*.css", "*.html")
    paths = sorted(path for kind in kinds for path in Path(django.__file__).parent.rglob(kind))
    return [line.strip() for path in paths for line in path.read_text(encoding="utf-8").split("\n") if len(line) > 20]


def train(languages: Collection[str], forms: Collection[str] = FORMS, number: int = ATTEMPTS) -> Model:
    """Train a model for these languages and forms of attempt, from `number` phrasings."""
    from sklearn.linear_model import LogisticRegression

    random = Random(SEED)  # noqa: S311 - a reproducible draw, not a secret
    drawn = [text for _, text in attempts(number, languages, forms, SEED)]
    bad = [disturb(random, text) if count % 3 else text for count, text in enumerate(drawn)]
    good = [text for _, text in honest(languages)]
    for language in sorted(languages):
        sentences = translations(language)
        good += random.sample(sentences, min(len(sentences), TRANSLATED * number // ATTEMPTS))
    good += [disturb(random, text) for text in random.sample(good, len(good) // 2)]
    good += [text for count, text in enumerate(source_texts(random)) if count % ATTEMPTS < number]
    rows = [*bad, *good]
    fitted = LogisticRegression(C=PENALTY, solver="liblinear", random_state=SEED)
    fitted.fit(matrix(rows), np.arange(len(rows)) < len(bad))
    return Model(fitted.coef_[0].astype(np.float32), float(fitted.intercept_[0]))


def matrix(texts: list[str]) -> "csr_matrix":
    """Return a row for each text, as the scanner scores a text of one window."""
    from scipy.sparse import csr_matrix

    buckets, owners = grams(
        ["".join(pieces(fold(text).encode("utf-8", "replace"))).replace("  ", " ") for text in texts]
    )
    counts = np.bincount(owners, minlength=len(texts))
    return csr_matrix((1 / np.sqrt(counts[owners]), (owners, buckets)), shape=(len(texts), BUCKETS))


def encode_model(model: Model) -> str:
    """Encode the model as JSON; weights are signed bytes in base 85."""
    scale = float(np.abs(model.weights).max()) / 127
    small = np.rint(model.weights / scale).astype(np.int8)
    record = {"bias": model.bias, "scale": scale, "weights": base64.b85encode(small.tobytes()).decode()}
    return json.dumps(record, indent=0) + "\n"


if __name__ == "__main__":
    target = Path(_prose.__file__).with_name("prose_weights.json")
    target.write_text(encode_model(train(grammar())), encoding="utf-8")
    sys.stdout.write(f"{target} was written.\n")
