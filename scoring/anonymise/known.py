"""Finds the strings that identify a pull request's people, anywhere in a text.

A string is replaced everywhere (in any case, width or accent, also with invisible characters in it) if it is a DID, an
address, a handle, a name of two words or more, or a single word of four letters or more that is neither code nor plain
English. Shorter and more common ones are replaced only where texts name people: trailers, mentions, addresses, paths.
Names of code words alone are never replaced: a name must not hide code from the reviewer.

A text is compared without accents, invisible characters and widths; positions lead back to the original.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import re2

from scoring.anonymise.common_words import CODE_WORDS, is_common
from scoring.anonymise.placeholders import Placeholders
from scoring.scanners.submission import Account

_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_DROPPED = {"Cf", "Mn", "Me"}


class Skeleton:
    """`text` is the original in lower case without accents and invisible characters; `origin` maps positions back."""

    def __init__(self, original: str) -> None:
        self._length = len(original)
        self._begins, self._origins = [0], [0]  # positions from which both run in parallel
        pieces, begin, length = [], 0, 0
        for run in _FOREIGN.finditer(original):
            length += self._keep(pieces, original[begin : run.start()].lower())
            for index in range(run.start(), run.end()):
                self._begins.append(length)
                self._origins.append(index)
                length += self._keep(pieces, fold_text(original[index]))
            begin = run.end()
            self._begins.append(length)
            self._origins.append(begin)
        self._keep(pieces, original[begin:].lower())
        self.text = "".join(pieces)

    @staticmethod
    def _keep(pieces: list[str], piece: str) -> int:
        pieces.append(piece)
        return len(piece)

    def origin(self, position: int) -> int:
        """Return the position in the original of a position in the text; the end for the end."""
        if position >= len(self.text):
            return self._length
        run = bisect_right(self._begins, position) - 1
        return self._origins[run] + position - self._begins[run]


def fold_text(text: str) -> str:
    """Return a text in lower case with compatible forms unified, without accents and invisible characters."""
    if text.isascii():
        return text.lower()
    text = text.encode("utf-8", "replace").decode()  # RE2 takes no lone surrogate
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(mark for mark in plain if unicodedata.category(mark) not in _DROPPED)


_WORD = re.compile(r"[^\W_]+")
_NAME_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_JOINT = r"[ \t._,-]{0,2}"  # between the words of a name: Jane Doe, jane.doe, JaneDoe
_BLANK = r",?[ \t]{1,3}"
_KNOWN_LIMIT = 3_000  # distinct strings, about five a person; a series has at most 500 mails
_LONGEST = 100  # characters of a string
_MOST_WORDS = 8  # of a name


class KnownPeople:
    """Finds known strings in texts."""

    def __init__(self, accounts: Iterable[Account], other_names: Iterable[str] = ()) -> None:
        strings = [string for account in accounts for string in _strings(account)]
        strings += [string for name in other_names for string in _strings_of_text(name)]
        unique = dict.fromkeys((kind, " ".join(text.split())) for kind, text in strings if _letters_only(text))
        known = list(unique)[:_KNOWN_LIMIT]
        longest = sorted(known, key=lambda string: (-len(string[1]), string))
        self._strings = {_letters_only(text): (kind, text) for kind, text in reversed(longest)}
        patterns = "|".join(_pattern(kind, text) for kind, text in longest)
        # RE2, so that names chosen by strangers cannot make the search slow.
        self._pattern = re2.compile(rf"(?:^|[^\pL\pN])({patterns})(?:[^\pL\pN]|$)") if longest else None

    def scrub(self, text: str, places: Placeholders) -> str:
        """Return the text with every known string replaced, line by line."""
        if self._pattern is None:
            return text
        return "\n".join(self._line(line, places) for line in text.split("\n"))

    def _line(self, line: str, places: Placeholders) -> str:
        skeleton = Skeleton(line)
        data = skeleton.text.encode()  # encoded once: each search on text would encode the rest of the line again
        pieces, begin, position, last = [], 0, 0, 0
        while self._pattern is not None and (match := self._pattern.search(data, position)):
            first = last + len(data[position : match.start(1)].decode())
            last = first + len(match[1].decode())
            position = match.end(1)
            start, end = skeleton.origin(first), skeleton.origin(last - 1) + 1
            pieces += [line[begin:start], places.put(*self._strings[_letters_only(match[1].decode())])]
            begin = end
        return "".join([*pieces, line[begin:]])


def _strings(account: Account) -> Iterator[tuple[str, str]]:
    """Yield (kind, folded text) of every string that identifies an account."""
    yield "did", fold_text(account.did)[:_LONGEST]
    yield from _handle_strings(account.handle or "")
    for email in account.emails:
        yield from _email_strings(email)
    for name in account.names:
        yield from _name_strings(name)


def _strings_of_text(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, folded text) for one string of a person; its form decides the kind."""
    text = text.strip()
    if text.startswith("did:"):
        yield "did", fold_text(text)[:_LONGEST]
    elif "@" in text.lstrip("@"):
        yield from _email_strings(text)
    elif "." in text and " " not in text:
        yield from _handle_strings(text)
    else:
        yield from _name_strings(text)


def _handle_strings(handle: str) -> Iterator[tuple[str, str]]:
    text = fold_text(handle).strip("@ ")[:_LONGEST]
    labels = text.split(".")
    if len(labels) > 1 and not CODE_WORDS.issuperset(labels[:-1]):
        yield "handle", text
    yield from _word_string("handle", labels[0])


def _email_strings(email: str) -> Iterator[tuple[str, str]]:
    text = fold_text(email).strip()[:_LONGEST]
    if "@" in text:
        yield "email", text
        for piece in text.partition("@")[0].split("+"):  # 12345+name@users.noreply.…
            yield from _word_string("handle", piece)


def _name_strings(name: str) -> Iterator[tuple[str, str]]:
    words = _NAME_WORD.findall(fold_text(name)[:_LONGEST])[:_MOST_WORDS]
    if len(words) > 1 and not CODE_WORDS.issuperset(words):
        yield "name", " ".join(words)
        yield "name", " ".join([*words[1:], words[0]])
    for word in words:
        yield from _word_string("name", word)


def _word_string(kind: str, word: str) -> Iterator[tuple[str, str]]:
    parts = _WORD.findall(word)
    if parts and not (is_common(word) or CODE_WORDS.issuperset(parts)):
        yield kind, word


def _pattern(kind: str, text: str) -> str:
    words = text.split(" ")
    if kind != "name":
        return re2.escape(text)
    # "Requests Get" must not hide requests.get, nor "An Li" an.li.
    joint = _BLANK if CODE_WORDS.intersection(words) or all(map(is_common, words)) else _JOINT
    return joint.join("['\u2019]?".join(map(re2.escape, re.split("['\u2019]", word))) for word in words)


def _letters_only(text: str) -> str:
    return "".join(_WORD.findall(text))
