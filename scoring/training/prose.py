"""Train the model that reads prose for words to an automated reviewer: `python -m scoring.training.prose`.

It learns from the grammar beside this module, from Django's translations of its own pages, and from the comments and
lines of Django's sources. All of it is in the repository or in the pinned environment, so anybody can build the same
model. It never learns from texts of pull requests.
"""

import base64
import json
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import django
import numpy as np

from scoring.scanners import _prose
from scoring.scanners._normalise import fold
from scoring.scanners._prose import BUCKETS, Model, grams, pieces
from scoring.training.prose_grammar import FORMS, attempts, disturb, grammar, honest

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

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
