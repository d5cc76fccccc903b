"""Patches as `git format-patch` writes them, made from templates; every hunk is valid, every hash is computed."""

import difflib
import gzip
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from random import Random

from ingest.atproto.cbor import EPOCH
from trustsite.world.changes import CHANGES
from trustsite.world.templates import DIALECTS, NOUNS, VERBS, Dialect, Language
from trustsite.world.traps import TRAPS


@dataclass(frozen=True)
class Signature:
    """The author and time that the patch claims; `offset` is the author's distance from UTC in hours."""

    name: str
    email: str
    time_us: int
    offset: int


@dataclass(frozen=True)
class Edit:
    """A file before and after."""

    title: str
    path: str
    before: str
    after: str

    def reversed(self) -> "Edit":
        """The edit that takes this one back."""
        return Edit(f'Revert "{self.title}"', self.path, self.after, self.before)


def make_edit(random: Random, language: Language, folder: str, trap: bool = False) -> Edit:
    """A change of one function in a file of several; a `trap` does harm."""
    words = _words(random)
    change = random.choice((TRAPS if trap else CHANGES)[language])
    dialect = DIALECTS[language]
    others = [other for other in CHANGES[language] if other is not change]
    around = [_fill(random.choice((other.before, other.after)), _words(random)) for other in random.sample(others, 3)]
    place = random.randrange(len(around) + 1)
    header = _fill(dialect.header, words)
    path = f"{folder}/{words['verb']}_{words['noun']}{dialect.suffix}"
    before, after = (
        _indent(dialect, dialect.gap.join([header, *around[:place], _fill(text, words), *around[place:]]))
        for text in (change.before, change.after)
    )
    return Edit(_fill(change.title, words), path, before, after)


def format_patch(edit: Edit, signature: Signature, body: str = "") -> bytes:
    """The mail of one commit, as `git format-patch` writes it."""
    added, removed, diff = _diff(edit)
    commit = hashlib.sha1(f"{signature.time_us}{signature.email}{diff}".encode(), usedforsecurity=False).hexdigest()
    zone = timezone(timedelta(hours=signature.offset))
    moment = (EPOCH + timedelta(microseconds=signature.time_us)).astimezone(zone)
    text = (
        f"From {commit} Mon Sep 17 00:00:00 2001\n"
        f"From: {signature.name} <{signature.email}>\n"
        f"Date: {_mail_date(moment)}\n"
        f"Subject: [PATCH] {edit.title}\n\n"
        + (f"{body}\n\n" if body else "")
        + f"---\n {edit.path} | {added + removed} {'+' * added}{'-' * removed}\n"
        + f" 1 file changed, {added} insertions(+), {removed} deletions(-)\n\n{diff}-- \n2.45.0\n\n"
    )
    return text.encode()


def pack(patch: bytes) -> bytes:
    """The gzipped blob that a pull request carries; the same patch gives the same bytes."""
    return gzip.compress(patch, mtime=0)


def _indent(dialect: Dialect, text: str) -> str:
    return re.sub(r"(?m)^( {4})+", lambda spaces: "\t" * (len(spaces[0]) // 4), text) if dialect.tabs else text


def _diff(edit: Edit) -> tuple[int, int, str]:
    lines: Sequence[str] = list(
        difflib.unified_diff(
            edit.before.splitlines(keepends=True),
            edit.after.splitlines(keepends=True),
            f"a/{edit.path}",
            f"b/{edit.path}",
        )
    )
    head = f"diff --git a/{edit.path} b/{edit.path}\nindex {_object(edit.before)}..{_object(edit.after)} 100644\n"
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return added, removed, head + "".join(lines)


def _object(text: str) -> str:
    data = text.encode()
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()[:8]


def _mail_date(moment: datetime) -> str:
    # strftime would follow the locale; a mail's date is English.
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[moment.month - 1]
    return f"{day}, {moment.day} {month} {moment:%Y %H:%M:%S %z}"


def _words(random: Random) -> dict[str, str]:
    noun, verb, number = random.choice(NOUNS), random.choice(VERBS), random.randrange(3, 250)
    return {
        "noun": noun,
        "Noun": noun.capitalize(),
        "verb": verb,
        "Verb": verb.capitalize(),
        "number": str(number),
        "more": str(number + random.choice((5, 10, 30, 60))),
    }


def _fill(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"«{word}»", value)
    return text
