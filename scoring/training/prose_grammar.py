"""Makes sentences from prose_grammar.toml: words to an automated reviewer, and honest prose of the same field."""

import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from random import Random

FORMS = ("order", "waiver", "claim", "result", "pressure", "persona")
FULL_STOPS = {"zh": "。", "ja": "。", "hi": "।"}
LOST, BENT, CHANGED = 0.1, 0.15, 0.15  # shares of dropped words, of words with another ending, of changed vowels
VOWELS = ("aeiou", "аеиоуыіє")
ENDINGS = ("", "a", "e", "o", "en", "et", "i")
Phrasing = tuple[str, str]  # language and text


@cache
def grammar() -> dict[str, dict[str, list[str]]]:
    """Return the clauses of each language by form."""
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
