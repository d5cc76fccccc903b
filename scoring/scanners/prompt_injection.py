"""Find text that addresses the reviewer: orders, flattery, threats, invented verdicts and invented ends of the data.

In code nobody has a reason to address a reviewer; in a description people do, to other people. So one phrase alone
proves little: a finding needs several near each other, and its weight depends on their place. A text that reads like a
report about such attacks (the phrases beside words like "attack" or "detects") is limited to `med`.

The list is reviewer_phrases.toml. A classifier of prose (_prose.py) complements it for phrasings and languages that the
list does not know.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import re2

from scoring.diff.paths import is_translation
from scoring.scanners._normalise import Carrier, Folded, Source, folded, shown
from scoring.scanners._prose import WINDOW, shipped_model, suspects
from scoring.scanners.submission import Submission
from scoring.types import QUOTE_LENGTH, Finding, Severity

SCANNER = "addressed"
NEAR = 260  # bytes between two related phrases: about 40 English words, 80 Chinese characters
SENTENCE = 120  # for common words, which two sentences often share by chance
HITS = 5_000  # of one concept in one change, which is enough to report a text made only of such phrases

# Folded text has Latin letters and digits in lower case; all other letters are beyond ASCII.
_GAP = r"(?:[^a-z0-9\x{80}-\x{10ffff}\n]+)"
_WORDS = rf"{_GAP}(?:[a-z0-9'\x{{80}}-\x{{10ffff}}]+{_GAP}){{0,4}}"
_REST = r"[a-z\x{80}-\x{10ffff}]*"
MEMORY = 64 << 20  # bytes that one compiled concept may take

Span = tuple[int, int]
_HIGH: dict[Carrier, Severity | None] = dict.fromkeys(("code", "docs", "name", "talk"), Severity.HIGH)
_SPOKEN: dict[Carrier, Severity | None] = {**_HIGH, "docs": Severity.LOW, "talk": Severity.LOW}
_SIGN: dict[Carrier, Severity | None] = dict.fromkeys(("code", "docs", "name", "talk"), Severity.LOW)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Kinds of phrase that together make an attempt: the first, and each of the others near it."""

    rule: str
    phrases: tuple[str, ...]
    weighs: dict[Carrier, Severity | None]
    what: str
    mentionable: bool = True
    near: int = NEAR


_HAILED: dict[Carrier, Severity | None] = dict.fromkeys(("code", "docs", "name", "talk"), Severity.MED)
_MACHINE = "speaks to an automated reviewer and tells it what to find"
_ATTEMPTS = (
    Attempt("own-verdict", ("schema",), _HIGH, "states the answer that the review has to give", mentionable=False),
    Attempt("override", ("override",), _HIGH, "tells its reader to disregard the instructions that it works under"),
    Attempt("extraction", ("extraction",), _HIGH, "asks its reader for the instructions that it works under"),
    Attempt("machine-order", ("machine", "verdict"), _HIGH, _MACHINE),
    Attempt(
        "machine-waiver", ("machine", "waiver"), _HIGH, "tells an automated reviewer that there is nothing to review"
    ),
    Attempt("machine-claim", ("machine", "approved"), _HIGH, "claims an approval towards an automated reviewer"),
    Attempt("machine-pressure", ("machine", "pressure"), _HIGH, "flatters or threatens an automated reviewer"),
    Attempt("machine-answer", ("machine", "answer"), _HIGH, "puts an answer into the mouth of an automated reviewer"),
    Attempt(
        "machine-result", ("machine", "result"), _SPOKEN, "reports to an automated reviewer what it is to have found"
    ),
    Attempt("machine-urged", ("machine", "urge", "outcome"), _SPOKEN, _MACHINE, near=SENTENCE),
    Attempt("machine-greeted", ("greeting", "urge", "outcome"), _HIGH, _MACHINE),
    Attempt("authority", ("authority", "verdict"), _HIGH, "speaks as if it came from those who run the review"),
    Attempt("authority", ("authority", "waiver"), _HIGH, "speaks as if it came from those who run the review"),
    Attempt("authority", ("authority", "approved"), _HIGH, "speaks as if it came from those who run the review"),
    Attempt("authority", ("authority", "persona"), _HIGH, "speaks as if it came from those who run the review"),
    Attempt("role", ("role", "verdict"), _HIGH, "imitates the turn of a conversation and gives an order in it"),
    Attempt("role", ("role", "waiver"), _HIGH, "imitates the turn of a conversation and waives the review in it"),
    Attempt("role", ("role", "result"), _HIGH, "imitates the turn of a conversation and invents a result in it"),
    Attempt("role", ("role", "answer"), _HIGH, "imitates the turn of a conversation and answers in it"),
    Attempt("role", ("role", "persona"), _HIGH, "imitates the turn of a conversation and assigns a role in it"),
    Attempt("role", ("role", "approved"), _HIGH, "imitates the turn of a conversation and claims an approval in it"),
    Attempt("role", ("token", "verdict"), _HIGH, "uses a language model's control token beside an order"),
    Attempt("role", ("token", "persona"), _HIGH, "uses a language model's control token beside a role"),
    Attempt("role", ("token", "result"), _HIGH, "uses a language model's control token beside a result"),
    Attempt("fence", ("fence", "verdict"), _HIGH, "imitates the end of the data and gives an order behind it"),
    Attempt("fence", ("fence", "role"), _HIGH, "imitates the end of the data and the start of a conversation"),
    Attempt("fence", ("fence", "persona"), _HIGH, "imitates the end of the data and assigns a role behind it"),
    Attempt("fence", ("fence", "result"), _HIGH, "imitates the end of the data and invents a result behind it"),
    Attempt("fence", ("fence", "answer"), _HIGH, "imitates the end of the data and answers behind it"),
    Attempt("fence", ("fence", "waiver"), _HIGH, "imitates the end of the data and waives the review behind it"),
    Attempt("persona", ("persona", "verdict"), _HIGH, "assigns a role to its reader and tells it what to find"),
    Attempt("pressure", ("pressure", "verdict"), _SPOKEN, "flatters or threatens its reviewer"),
    Attempt("reviewer-order", ("reviewer", "verdict"), _SPOKEN, "speaks to a reviewer and says what to find"),
    Attempt(
        "reviewer-waiver",
        ("reviewer", "waiver"),
        _SPOKEN,
        "speaks to a reviewer and says that there is nothing to review",
    ),
    Attempt("reviewer-claim", ("reviewer", "approved"), _SPOKEN, "claims an approval towards a reviewer"),
    Attempt("claim", ("approved", "waiver"), _SPOKEN, "claims an approval and that no review is needed"),
    Attempt(
        "invented-result", ("result", "verdict"), _SPOKEN, "reports the result of a tool and says what to conclude"
    ),
    Attempt("invented-result", ("answer", "verdict"), _SPOKEN, "writes down an answer and says that it is to be given"),
    Attempt("machine-hailed", ("hail",), _HAILED, "is addressed to an automated reviewer"),
    Attempt("control-token", ("token",), _SIGN, "holds a control token of a language model"),
)
# Findings of the classifier alone. It does not understand the text, so prose for people weighs less.
_ALIKE = Attempt("reads-like-an-order", (), _HIGH, "reads like words to an automated reviewer")
# Scores of such a finding, and of a possible one. People write much to each other in documentation and translations,
# and the model knows English best: of 3,000 real diffs 15 are flagged; 30 would be if every score from LIKELY on
# counted. A statement without words is not scored: its names read like an order only by chance.
SURE, LIKELY, LIKELY_IN_PROSE = 2.0, -0.15, 1.0
_STATEMENT = re.compile(r"""[={};]|\w\(|\w\[["']|\s--\w|^\s*(?:async|class|def|elif|except|with)\b.*:\s*$""")
# A text with one of these words in every RUN is English, and anybody addressing a reviewer in English names what is
# read, done or concluded; imperatives of docstrings and comments do not. Words shared with other languages (an, in, is)
# are not included. Of 2,000 real diffs this leaves 19 of 26 flagged.
_ENGLISH = frozenset(
    b"the of and to this that for if it you your not are with have has was or by from at be which when will can".split()
)
_PLAIN_WORD = re.compile(rb"[a-z']+")
RUN = 8  # words
_REVIEWED = re2.compile(
    rb"\b(?:re-?view|approv|assistant|ai\b|llm|gpt|claude|copilot|language model|models?\b|agents?\b|(?:ro)?bots?\b|"
    rb"scann|screen|analy[sz]|assess|examin|grad(?:er|ing)|verdict|risk|scor|rat(?:e|ing|ed)\b|audit|flag|finding|"
    rb"harmless|(?:un)?safe|benign|clean|malicious|ignor|disregard|forget|instruct|prompt|classif|categori|secur|trust|"
    rb"vulnerab|inspect|evaluat|judg|reader|automated|concern|objection|suspicio|threat|danger|alarm|merge|verified|"
    rb"checker|conclu|recommend|triage|lgtm|sign(?:ed)?[ -]off|diff\b|patch|pull request|change|vett|lenien|nothing|"
    rb"look(?:ed)? (?:at|over)|everything|through\b|blessed|goodwill|penali|move along|carry on|from here on|"
    rb"no further|you (?:play|are))"
)
# A percent sign after a quoted text or a bracket is an operator, before a letter a placeholder.
_COMMENT = re.compile(r"(?:^|\s)(?:#|//|/\*|\*|;|<!--|<\w|\"\"\"|''')|(?<![\"'`)\]])\s%+\s|^\s*(?:%|--)")
_QUOTED = re.compile(r"[\"'`]([^\"'`]*+)[\"'`]")
_HOLE = re.compile(r"[$#]?\{[^{}]*\}")  # of a text; its content is not prose
_WORD = re.compile(r"[^\W\d_]{2,}")
SENTENCE_WORDS = 4  # of a text in quotes that may be a sentence


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield the strongest attempt of each line, in the order of the change and then of the texts beside it."""
    text = folded(submission)
    phrases = _Phrases(text)
    strongest: dict[int, tuple[Severity, Attempt]] = {}
    for attempt in _ATTEMPTS:
        for span in phrases.attempts(attempt):
            line = text.index(span[0])
            severity = attempt.weighs[text.sources[line].carrier]
            if severity is Severity.HIGH and attempt.mentionable and phrases.is_mention(span):
                severity = Severity.MED
            if severity is not None and (line not in strongest or _weight(severity) > _weight(strongest[line][0])):
                strongest[line] = severity, attempt
    for line, severity in _alike(text):
        if line not in strongest or _weight(severity) > _weight(strongest[line][0]):
            strongest[line] = Severity.MED if _is_reported(phrases, text, line) else severity, _ALIKE
    for line in sorted(strongest):
        yield _finding(text.sources[line], *strongest[line])


def _alike(text: Folded) -> Iterator[tuple[int, Severity]]:
    """Yield the sources that the classifier takes for words to a reviewer."""
    for line, score in suspects(text, shipped_model()):
        source = text.sources[line]
        if source.carrier == "name" or _is_statement(source):  # a name reads like an order only by chance
            continue
        in_prose = source.carrier == "docs" or (source.file is not None and is_translation(source.file.path))
        if score >= _least_score(text, line, in_prose=in_prose):
            yield line, Severity.HIGH if score >= SURE and not in_prose else Severity.MED


def _least_score(text: Folded, line: int, *, in_prose: bool) -> float:
    """Return the least score that counts for the lines read together.

    Infinite for English without a word about reviews.

    Statements are omitted. The model knows English best, so an order in it scores high.
    """
    ends = [*text.starts, len(text.text)]
    words: list[bytes] = []
    is_reviewed = False
    for index in range(line, min(line + WINDOW, len(text.sources))):
        part, end, _ = text.text[ends[index] : ends[index + 1]].partition(b"\n")
        is_reviewed = is_reviewed or not part.isascii() or _REVIEWED.search(part) is not None
        words += [] if _is_statement(text.sources[index]) else _PLAIN_WORD.findall(part)
        if end:
            break
    english_positions = [index for index, word in enumerate(words) if word in _ENGLISH]
    runs = pairwise([-1, *english_positions, len(words)])
    if not is_reviewed and len(english_positions) > 1 and all(last - first <= RUN for first, last in runs):
        return inf
    return LIKELY_IN_PROSE if in_prose or english_positions else LIKELY


def _is_statement(source: Source) -> bool:
    """Return whether a line is code, without a comment and without a text of several words."""
    text = _HOLE.sub("", source.text[:2_000])
    if (
        source.carrier not in ("code", "docs")
        or _STATEMENT.search(source.text[:2_000]) is None
        or _COMMENT.search(text)
    ):
        return False
    return all(len(_WORD.findall(quoted)) < SENTENCE_WORDS for quoted in _QUOTED.findall(text))


def _is_reported(phrases: "_Phrases", text: Folded, line: int) -> bool:
    start = text.starts[line]
    return phrases.is_mention((start, start + len(text.sources[line].text)))


def _weight(severity: Severity) -> int:
    return (Severity.LOW, Severity.MED, Severity.HIGH).index(severity)


class _Phrases:
    """The positions of each kind of phrase in a folded text, searched on first use."""

    def __init__(self, text: Folded) -> None:
        self._text = text.text
        self._ascii = text.text.isascii()
        self._spans: dict[str, list[Span]] = {}

    def spans(self, name: str) -> list[Span]:
        """Return all positions of one kind, in order."""
        if name not in self._spans:
            self._spans[name] = list(self._find(name))
        return self._spans[name]

    def _find(self, name: str) -> Iterator[Span]:
        for number, match in enumerate(concept(name, self._ascii).finditer(self._text)):
            if number == HITS:
                return
            if name != "verdict" or not _is_negated(self._text, match.start()):
                yield match.span()

    def attempts(self, attempt: Attempt) -> Iterator[Span]:
        """Yield the spans from the earliest phrase to the latest, where all are near the first."""
        for first in self.spans(attempt.phrases[0]):
            spans = [first, *(self._near(first, name, attempt.near) for name in attempt.phrases[1:])]
            if all(spans):
                yield min(span[0] for span in spans if span), max(span[1] for span in spans if span)

    def is_mention(self, span: Span) -> bool:
        """Return whether words of a report about such attacks are near the span."""
        return self._near(span, "mention", SENTENCE) is not None

    def _near(self, span: Span, name: str, distance: int) -> Span | None:
        """Return the first phrase of this kind in the same block, at most `distance` away."""
        others = self.spans(name)
        index = bisect_left(others, (span[0] - distance, 0))
        while index < len(others) and others[index][0] <= span[1] + distance:
            if self._joined(span, others[index]):
                return others[index]
            index += 1
        return None

    def _joined(self, first: Span, second: Span) -> bool:
        return self._text.find(b"\n", min(first[0], second[0]), max(first[1], second[1])) < 0


def _is_negated(text: bytes, start: int) -> bool:
    """Return whether a "never" or "not" precedes an order, which then forbids it."""
    before = text[max(start - 12, 0) : start].decode("utf-8", "ignore").rstrip(" \"'`*_:")
    return before.endswith(
        (" never", " not", "n't", "cannot", " nicht", " nie", " jamais", " nunca", "никогда не", "不要", "不得")
    )


def _finding(source: Source, severity: Severity, attempt: Attempt) -> Finding:
    subject = {"name": "The name of this file", "talk": "The text beside the change"}.get(source.carrier, "This text")
    caveat = " It may be a report about such attempts." if severity is Severity.MED else ""
    return Finding(
        scanner=SCANNER,
        rule=attempt.rule,
        type="security",
        severity=severity,
        explanation=f"{subject} {attempt.what}.{caveat}",
        file=source.file.path if source.file else None,
        line=source.line.new if source.line else None,
        quote=shown(source.text)[:QUOTE_LENGTH],
    )


@cache
def concept(name: str, ascii_only: bool) -> Any:
    """Compile the pattern of one kind of phrase; for ASCII text without other scripts."""
    table = _table()
    alternatives = [rf"\b(?:{_words(phrase)})\b" for phrase in _phrases(table["latin"].get(name, ""))]
    if not ascii_only:
        alternatives += [_words(phrase) for phrase in _phrases(table["other"].get(name, ""))]
    alternatives += _phrases(table["shapes"].get(name, ""))
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    return re2.compile("|".join(f"(?:{alternative})" for alternative in alternatives), options)


@cache
def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("reviewer_phrases.toml").read_text(encoding="utf-8"))


def _phrases(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line."""
    return [phrase.replace("\n", "") for phrase in text.strip("\n").split("\n\n") if phrase]


def _words(text: str) -> str:
    """Return the file's notation as a regular expression."""
    for name, words in _table()["words"].items():
        text = text.replace(f"{{{name}}}", words.replace("\n", ""))
    text = re.sub(r"(?<=[^\W\d_])\*", lambda _: _REST, text)
    return text.replace("…", "\0").replace(" ", _GAP).replace("\0", _WORDS)
