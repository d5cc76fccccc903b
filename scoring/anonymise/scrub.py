"""Removes people from a submission for a reviewer that must not know its author, also from files that list people."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from scoring.anonymise.known import KnownPeople, Placeholders
from scoring.anonymise.rules import CODE_RULES, HANDLE_RULES, MENTION_RULES, PEOPLE, WORD_MENTION_RULES, WORD_RULES
from scoring.diff.change import Change, FileChange, Hunk, Mail
from scoring.scanners.submission import Account, Knowledge, Submission
from scoring.types import Finding

_LISTS = {
    "authors", "contributors", "maintainers", "credits", "thanks", "committers", "developers", "patrons", "sponsors",
    ".mailmap", "humans",
}  # fmt: skip
_LIST_SUFFIXES = {"", ".in", ".md", ".rst", ".txt", ".adoc"}
_RUN_SUFFIXES = {"", ".in"}  # such a file may be a script: lines that look like code stay
_CODE = re.compile(r"[;=$`{}\\&]|\(\)|\w\s*\|\s*\w|#!|\b(?:curl|wget|import|exec|eval|rm|sudo|sh)\s")
_OWNERS = {"codeowners", "owners", "owners_aliases"}
_METADATA = {
    "package.json", "composer.json", "bower.json", "manifest.json", "codemeta.json", "cargo.toml", "pyproject.toml",
    "setup.py", "setup.cfg", "pkg-info", "metadata", "pom.xml", "description", "pubspec.yaml", "galaxy.yml", "dub.json",
    "mkdocs.yml", "_config.yml", "conf.py", "citation.cff", "mix.exs", "shard.yml", "pkgbuild", "meta.yaml",
    "chart.yaml",
}  # fmt: skip
_METADATA_SUFFIXES = {".gemspec", ".podspec", ".cabal", ".nuspec", ".csproj", ".rockspec", ".opam", ".nix"}
_KEY = re.compile(
    r"(?<![\w-])(?:authors?|author[_-]email|maintainers?|maintainer[_-]email|contributors?|developers?|creators?|"
    r"publisher|site_author|family-names|given-names|orcid)[\"']?[ \t]{0,20}(?:=>|[:=])[ \t]{0,20}",
    re.IGNORECASE,
)
_STRING = re.compile(  # a string; the key of a field is matched without a group
    r"\"[^\"\n]{1,300}\"[ \t]{0,20}:|'[^'\n]{1,300}'[ \t]{0,20}:|\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'"
)
_PAIRED = re.compile(r"\bname[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']([^\"'\n]{1,200})[\"'][ \t]{0,8},[ \t]{0,8}[\"']?email")
_TEXT = re.compile(r">([^<>\n]{1,300})<")
_ITEM = re.compile(rf"\A(?>[ \t]*(?:-[ \t]+)?(?:[\w-]{{1,30}}:[ \t]+)?)({PEOPLE})")
_VALUE = re.compile(rf"\A({PEOPLE})")
_OWNER = re.compile(r"(?<!\S)(\S{0,100}@\S{1,100})")
_URL = re.compile(r"\burl[ \t]{0,20}=[ \t]{0,20}(\S{1,500})")
_MEMBER = re.compile(r"^[ \t]*-[ \t]+[\"']?([\w.@-]{1,100})")
_FUNDING = re.compile(r"(?:[:\[,]|^[ \t]*-)[ \t]+[\"']?([^\s\"'\[\],#<>]{1,300})|\[[\"']?([^\s\"'\[\],#<>]{1,300})")
_SETTING = re.compile(r"^[ \t]*(?:name|email|signingkey)[ \t]*=[ \t]*([^\n;#]{1,200})", re.IGNORECASE)
_CONTRIBUTOR = re.compile(r"\"(?:login|name|profile|avatar_url)\"[ \t]*:[ \t]*\"([^\"\n]{1,300})\"")
_TABLE = re.compile(r"^[ \t]*\[\[?(?:[\w.-]{1,60}\.)?(?:authors|maintainers)(?:\.[\w-]{1,60})?\]\]?", re.IGNORECASE)
_FIELD = re.compile(r"^[ \t]*(?:name|email|github|handle)[ \t]*=[ \t]*[\"']([^\"'\n]{1,300})[\"']")
_OWNED = re.compile(rf"{_OWNER.pattern}|{_MEMBER.pattern}")
# Files in which every match of a pattern is a person: the placeholder's kind, and the pattern.
_VALUES = {
    **dict.fromkeys(_OWNERS, ("handle", _OWNED)),
    ".gitmodules": ("url", _URL),
    ".gitconfig": ("person", _SETTING),
    "funding.yml": ("user", _FUNDING),
    ".all-contributorsrc": ("person", _CONTRIBUTOR),
    **dict.fromkeys(("maintainers.toml", "authors.toml"), ("person", _FIELD)),
}
_CLOSERS = {"[": "]", "{": "}", "(": ")"}
_ELEMENT = re.compile(r"<(?:developer|contributor|author|owner)s?>", re.IGNORECASE)
_ELEMENT_END = re.compile(r"</(?:developer|contributor|author|owner)s?>", re.IGNORECASE)
_ARMOUR = re.compile(r"[A-Za-z0-9+/=]{16,76}\s*")


def scrub_lines(path: str, lines: Sequence[str], places: Placeholders) -> list[str]:
    """Scrub the people that this kind of file names; the number of lines stays."""
    name = PurePosixPath(path.lower()).name
    stem, dot, ending = name.rpartition(".")
    suffix = f".{ending}" if dot and stem else ""
    if name in _LISTS or (stem in _LISTS and suffix in _LIST_SUFFIXES):
        is_code = _CODE.search if suffix in _RUN_SUFFIXES else lambda _line: None
        return [line if is_code(line) else _replace_line(line, "person", places) for line in lines]
    if name in _VALUES:
        kind, pattern = _VALUES[name]
        return [_replace_groups(pattern, kind, line, places) for line in lines]
    fields = _Fields(name in _METADATA or suffix in _METADATA_SUFFIXES, suffix in (".py", ".js", ".exs"), places)
    return [fields.line(line) for line in lines]


def _replace_line(line: str, kind: str, places: Placeholders) -> str:
    text = line.strip()
    return line.replace(text, places.put(kind, text), 1) if any(map(str.isalnum, text)) else line


def _replace_groups(pattern: re.Pattern[str], kind: str, text: str, places: Placeholders, times: int = 0) -> str:
    """Replace the matched group of each match, or of the first `times` ones."""

    def replaced(match: re.Match[str]) -> str:
        if match.lastindex is None:
            return match[0]
        begin, end = (position - match.start() for position in match.span(match.lastindex))
        return match[0][:begin] + places.put(kind, match[0][begin:end]) + match[0][end:]

    return pattern.sub(replaced, text, count=times)


class _Fields:
    """Scrubs fields of authors in metadata line by line; a list may span many lines."""

    def __init__(self, metadata: bool, code: bool, places: Placeholders) -> None:
        self._metadata, self._code, self._places = metadata, code, places
        self._until = ""  # the end of the open list: a bracket, an element, "-" for a list of dashes
        self._people = False  # whether a TOML table of people is open
        self._armour = False  # whether a block of a key or signature is open

    def line(self, line: str) -> str:
        """Scrub the next line of the file."""
        if "-----BEGIN PGP" in line or "-----END PGP" in line:
            self._armour = "-----BEGIN PGP" in line
        elif self._armour and _ARMOUR.fullmatch(line.strip("#*/ \t")):
            return _replace_line(line, "pgp", self._places)
        if self._metadata and line.lstrip().startswith("["):
            self._people = _TABLE.match(line) is not None
        elif self._people and (named := _FIELD.match(line)):
            return line[: named.start(1)] + self._places.put("person", named[1]) + line[named.end(1) :]
        if self._until:
            return self._inside(line)
        key = _KEY.search(line) if self._metadata else None
        if key:
            return line[: key.end()] + self._value(line[key.end() :])
        if self._metadata and _ELEMENT.search(line):
            self._until = "</"
            return self._inside(line)
        return _replace_groups(_PAIRED, "person", line, self._places)

    def _value(self, rest: str) -> str:
        """Scrub the text after a field's key: a list, a string, words, or nothing before a list of dashes."""
        first = rest[:1]
        if rest.startswith(("%w[", "%w(")):
            listed, end, after = rest[3:].partition(_CLOSERS[rest[2]])
            return rest[:3] + (self._places.put("person", listed) if listed.strip() else listed) + end + after
        if first in _CLOSERS:
            self._until = _CLOSERS[first]
            return first + self._inside(rest[1:])
        if first in ("'", '"'):
            return _replace_groups(_STRING, "person", rest, self._places, times=1)
        if not rest.strip():
            self._until = "" if self._code else "-"
            return rest
        return rest if self._code else _replace_groups(_VALUE, "person", rest, self._places, times=1)

    def _inside(self, line: str) -> str:
        """Scrub a line of the open list, up to its end."""
        if self._until == "-":
            return self._item(line)
        if self._until == "</":
            self._until = "" if _ELEMENT_END.search(line) else "</"
            return _replace_groups(_TEXT, "person", line, self._places)
        listed, end, rest = line.partition(self._until)
        self._until = "" if end else self._until
        return _replace_groups(_STRING, "person", listed, self._places) + end + rest

    def _item(self, line: str) -> str:
        """Scrub a line of a list of dashes, or the line after it."""
        if not line.startswith((" ", "\t", "-")):
            self._until = ""
            return self.line(line)
        return _replace_groups(_ITEM, "person", line, self._places, times=1)


_PROSE = (".md", ".rst", ".txt", ".adoc", ".org")
_COMMENT = re.compile(r"(?:#|//|/\*|^[ \t]{0,80}\*|--|<!--)[^\n]{1,2000}", re.MULTILINE)


def scrub_code(text: str, path: str, known: KnownPeople, places: Placeholders) -> str:
    """Scrub lines of a file; their number stays. Mentions count in comments of code, and anywhere in prose."""
    text = known.scrub(CODE_RULES.scrub(text, places), places)
    text = HANDLE_RULES.scrub(text, places)
    if path.lower().endswith(_PROSE):
        return MENTION_RULES.scrub(text, places)
    return _COMMENT.sub(lambda match: MENTION_RULES.scrub(match[0], places), text) if "@" in text else text


def scrub_words(text: str, known: KnownPeople, places: Placeholders) -> str:
    """Scrub a title, a description, a message or a discussion, where dates and all mentions name people too."""
    return WORD_MENTION_RULES.scrub(known.scrub(WORD_RULES.scrub(text, places), places), places)


class Scrubber:
    """Removes people from one submission. `others` are names of further people, such as the repository's owner."""

    def __init__(self, accounts: Iterable[Account] = (), others: Iterable[str] = ()) -> None:
        self._known = KnownPeople(accounts, others)
        self._places = Placeholders()

    @classmethod
    def of(cls, submission: Submission, other_names: Iterable[str] = ()) -> "Scrubber":
        """Build a scrubber that knows the submission's account and the authors of its mails."""
        account = submission.knowledge.account
        mails = [text for mail in submission.change.mails for text in (mail.author, mail.email) if text]
        return cls([account] if account else [], [*other_names, *mails])

    @property
    def counts(self) -> dict[str, int]:
        """Replacements per kind so far, for the log; never the strings."""
        return dict(self._places.counts)

    def submission(self, submission: Submission) -> Submission:
        """Scrub change, title, description and discussion, in this order; other knowledge is left out."""
        return Submission(
            change=self.change(submission.change),
            title=self.text(submission.title),
            description=self.text(submission.description),
            discussion=tuple((role, self.text(text)) for role, text in submission.discussion),
            knowledge=Knowledge(),
        )

    def change(self, change: Change) -> Change:
        """Scrub a change; files, hunks and lines stay, mails keep subject and message."""
        files = tuple(self._file(file) for file in change.files)
        mails = tuple(Mail("", "", "", self.text(mail.subject), self.text(mail.message)) for mail in change.mails)
        problems = tuple(self.finding(problem) for problem in change.problems)
        return replace(change, files=files, mails=mails, problems=problems)

    def text(self, text: str) -> str:
        """Scrub free text; the number of lines stays."""
        return scrub_words(text, self._known, self._places)

    def path(self, path: str) -> str:
        """Scrub the path of a file; its folders stay."""
        return scrub_code(path, "", self._known, self._places)

    def finding(self, finding: Finding) -> Finding:
        """Scrub the path and the quoted line of a finding."""
        file = None if finding.file is None else self.path(finding.file)
        (quote,) = self._lines(finding.file or "", [finding.quote])
        return replace(finding, file=file, quote=quote)

    def _file(self, file: FileChange) -> FileChange:
        texts = [text for hunk in file.hunks for text in (hunk.section, *(line.text for line in hunk.lines))]
        path, old_path = self.path(file.path), self.path(file.old_path)
        scrubbed = self._lines(file.path, texts)
        hunks = file.hunks if scrubbed == texts else _rebuilt(file.hunks, scrubbed)
        return replace(file, path=path, old_path=old_path, hunks=hunks)

    def _lines(self, path: str, lines: list[str]) -> list[str]:
        text = "\n".join(scrub_lines(path, lines, self._places))
        return scrub_code(text, path, self._known, self._places).split("\n")


def _rebuilt(hunks: tuple[Hunk, ...], texts: list[str]) -> tuple[Hunk, ...]:
    """Return the hunks with these texts, in the order of sections and lines."""
    following = iter(texts)
    return tuple(
        replace(
            hunk,
            section=next(following),
            lines=tuple(
                line if line.text == text else replace(line, text=text)
                for line, text in zip(hunk.lines, following, strict=False)
            ),
        )
        for hunk in hunks
    )
