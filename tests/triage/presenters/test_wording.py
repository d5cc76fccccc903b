"""The words of the pages: phrases that readers stumbled over occur in no template and in no table of sentences."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from django.conf import settings

from scoring.explain import decided, sentences, spoken
from tests.scoring.explain.test_plain import Watched
from triage.presenters.about import HELP

# Each stands for a better one: "merge" for what is neither, a name for what it names.
FORBIDDEN = """
    contributions?\\b(?! graph)|push[ -]holders?|who may push|by itself|P\\(clean\\)|\\brecipe\\b|is no seed
    label_(?:merge|clean)|s (?:>=|≥|&gt;=) ?0?\\.5|first passage|self-lift|Not listening|nobody named an account
    What its \\d+ message|things? found in it|Keep note|Note kept|Pull into my review|I am looking|It turned out
    Mark outcome|mined: nothing|void: it changed|known not to hold|If somebody attacks|Not played|can be talked into
    What holds here|As the operator of this site set it|People who are no seed|Seeds besides those|Paths that are never
    Nobody closed it|Only for trust that comes|everybody who meets it|Hand a link|None was handed out|Object for them
    Who wrote these, and what|Said on this site|Listed, once there|do not belong together|This is not yours
    The same again|at most about|Nothing was seen|separate way leads|still being watched|which nobody confirms
    across a bound|Ways that share nobody|Drawn for the audit|Keys of one letter|Judged with data up to
    Not enough evidence|threshold set by hand|shadow mode|\\(addressed\\)|\\(dangerous\\)|Denounced by a seed
    \\(replaced\\)|\\(newest\\)|(?-i:Read the change)|False approvals|Dead letters?|Ingest lag
    Account events of strangers|closed unmerged|Who: structural|What: content|Approve the selected
    shown only\\b(?! once)|being scored at all
"""
_FORBIDDEN = re.compile("|".join(line.strip() for line in FORBIDDEN.strip().splitlines()), re.IGNORECASE)
TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))


def clumsy(text: str) -> list[str]:
    """The forbidden phrases of a text that is read, with a word or two around each."""
    return [text[max(0, found.start() - 20) : found.end() + 20] for found in _FORBIDDEN.finditer(text)]


def test_the_reader_of_words_finds_what_is_forbidden_and_nothing_else() -> None:
    assert clumsy("Merged by a push-holder") == ["Merged by a push-holder"]
    assert clumsy("It closes nothing by itself. P(clean) of their contributions")[1:]
    assert not clumsy("A contributor's pull request; of people with push access 50 % stays clean")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_a_forbidden_phrase(path: Path) -> None:
    code = r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<code>.*?</code>"
    source = re.sub(code, " ", path.read_text(), flags=re.DOTALL)
    labels = " ".join(re.findall(r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"', source))
    assert clumsy(f"{re.sub('<[^>]*>', ' ', source)} {labels}") == []


def told() -> Iterator[tuple[str, str]]:
    """Every sentence of the tables of reasons and of help, by where it stands."""
    tables: Mapping[str, Mapping[str, object]] = {
        "sentence": sentences.SENTENCES,
        "own": sentences.OWN_SENTENCES,
        "clause": decided.CLAUSES,
        "held": spoken.HELD,
        "known": spoken.KNOWN,
    }
    for name, table in tables.items():
        for code, write in table.items():
            assert callable(write)
            yield f"{name} {code}", str(write(Watched()))
    yield from sentences.PLAIN_SENTENCES.items()
    yield from ((f"help {name}", f"{name}: {words}") for name, words in HELP.items())


def test_no_sentence_of_a_reason_and_no_help_holds_a_forbidden_phrase() -> None:
    assert {place: found for place, words in told() if (found := clumsy(words))} == {}
