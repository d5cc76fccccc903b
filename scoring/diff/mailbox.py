"""Writes approved patches as mails for `git am`: the exact changes, with harmless text around them. Pure.

git finds mails, headers and patches in a text by its own rules, and a stranger wrote the text. So headers are written
anew, lines of a message that git would read as a mail, a header, a cut or a patch are marked, and only lines of files'
parts are kept from the patch. The result is parsed again and must be the approved change.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.header import Header
from email.utils import format_datetime, parsedate_to_datetime

from ingest.git.patch import change_lines, is_from_line, patch_id, split_mails
from scoring.diff.change import Mail
from scoring.diff.mails import encoding_header, ends_message, read_mail

NAME_LENGTH, SUBJECT_LENGTH = 60, 300
MESSAGE_LINES = 2_000
MARK = "| "
_FROM = "From " + "0" * 40 + " Mon Sep 17 00:00:00 2001"  # the date by which git recognises its own mails
_INNER = re.compile(
    r"(?:>?from |\[patch|(?:from|subject|date):)", re.IGNORECASE
)  # git reads these at the beginning of a message as further headers
_SCISSORS = re.compile("8<|>8|8%|%8|%<|>%|\N{BLACK SCISSORS}|\N{WHITE SCISSORS}")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,100}@[A-Za-z0-9.-]{1,100}")


class MailboxProblem(Exception):
    """A patch cannot be written as mails; the text is one sentence with the reason and what to do."""


@dataclass(frozen=True, slots=True)
class MailSource:
    """The data of a mail beyond the patch: sender, time and title."""

    did: str
    name: str
    title: str
    opened_at: datetime  # naive UTC


def write_mailbox(text: str, approved: str, source: MailSource) -> str:
    """Return a mailbox with exactly the change `approved` (a patch-id) from the stored text of its patch.

    Raises MailboxProblem if the text is another change, or git would read another one from it.
    """
    if patch_id(text) != approved:
        raise MailboxProblem("the kept text is not UTF-8 or not the approved patch: merge it on the forge instead")
    mails = [mail for mail in split_mails(text) if _has_diff(mail)]
    if any(_begins_mail(mail[0]) and encoding_header(mail) is not None for mail in mails):
        raise MailboxProblem("a mail of it is encoded, so git would read another patch: merge it on the forge instead")
    mailbox_text = "".join(_write_mail(mail, number, len(mails), source) for number, mail in enumerate(mails, 1))
    if patch_id(mailbox_text) != approved or len(split_mails(mailbox_text)) != len(mails):
        raise MailboxProblem("it cannot be written as mails that git reads alike: merge it on the forge instead")
    return mailbox_text


def _begins_mail(line: str) -> bool:
    return is_from_line(line.encode("utf-8", "replace"))


def _has_diff(lines: Sequence[str]) -> bool:
    return next(iter(_changes(lines)), None) is not None


def _write_mail(lines: Sequence[str], number: int, count: int, source: MailSource) -> str:
    original = _read_original(lines, source)
    prefix = f"PATCH {number}/{count}" if count > 1 else "PATCH"
    subject = " ".join(_printable(original.subject).split())[:SUBJECT_LENGTH] or "(no subject)"
    head = [
        _FROM,
        f"From: {_author(original, source)}",
        f"Date: {_date(original.date, source.opened_at)}",
        f"Subject: {_encode_header(f'[{prefix}] {subject}', 'Subject: ')}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
    ]
    return "\n".join([*head, "", *_message(original.message), "---", "", *_changes(lines), "-- ", "sunstead", "", ""])


def _read_original(lines: Sequence[str], source: MailSource) -> Mail:
    """Return author, date, subject and message of a mail; a plain diff gets the title as its subject."""
    if not _begins_mail(lines[0]):
        return Mail("", "", "", source.title, "")
    end = next((index for index, line in enumerate(lines) if index and ends_message(line)), len(lines))
    return read_mail(list(lines[:end]))


def _changes(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that belong to files' parts."""
    return (lines[number - 1] for number, _ in change_lines(line.encode("utf-8", "replace") for line in lines))


def _message(text: str) -> Iterator[str]:
    """Yield the lines of a message; those that git would not read as words are marked."""
    lines = [_printable(line).rstrip() for line in text.split("\n")[:MESSAGE_LINES]]
    first = next((index for index, line in enumerate(lines) if line), None)
    for index, line in enumerate(lines):
        cut = _SCISSORS.sub("(cut)", line)
        is_header = index == first and _INNER.match(cut.lstrip()) is not None
        is_end = ends_message(cut) or cut.lstrip().lower().startswith(
            ("from ", ">from ", "diff ", "index: ", "---", "@@")
        )
        yield f"{MARK}{cut}" if is_header or is_end else cut


def _author(original: Mail, source: MailSource) -> str:
    name = " ".join(re.sub(r'[<>"@,;:\\()\[\]]', " ", _printable(original.author)).split())[:NAME_LENGTH]
    if name and _ADDRESS.fullmatch(original.email):
        return f"{_encode_header(name, 'From: ')} <{original.email}>"
    account = re.sub(r"[^A-Za-z0-9.-]", ".", source.did)[:100]
    display_name = " ".join(re.sub(r"[^\w.-]", " ", source.name).split())[:NAME_LENGTH] or account
    return f"{_encode_header(display_name, 'From: ')} <{account}@did.invalid>"


def _date(date: str, fallback: datetime) -> str:
    """Return the mail's date if it is valid, else `fallback`, in the form of a mail header."""
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, IndexError, OverflowError):
        moment = fallback.replace(tzinfo=UTC)
    return format_datetime(moment if 1970 <= moment.year < 2100 else fallback.replace(tzinfo=UTC))


def _encode_header(text: str, name: str) -> str:
    """Encode a header's value in ASCII, folded as required."""
    charset = "us-ascii" if text.isascii() else "utf-8"
    return Header(text, charset, header_name=name.rstrip(": "), maxlinelen=500).encode(linesep="\n")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() or character == "\t" else " " for character in text)
