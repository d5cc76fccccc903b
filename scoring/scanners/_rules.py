"""Rules as data: the files in rules/, validated when read. To add a rule, add it to a file there.

`rule` is a rule of ast-grep (with `constraints`), matched on the syntax tree of the new side and reported where it
touches an added line. `lines` is a regular expression (RE2, so linear in time) for an added line, `removed` one for a
removed line. `statement` is one for a changed statement over any number of lines, read as one line with names filled in
(_statements.py), or `as_written`; `{name}` in it inserts a part of rules/patterns.yml, `spares` must not match the
statement (or the text that a `rule` found), and `within` must match the head of a function around it. `holes` names the
part of rules/patterns.yml for safe values: at least one value inserted into a text of the statement, or of what a
`rule` found, must be another (_holes.py), and for SQL more than what removed lines say unquoted. `beside` must match
another added line of the hunk (for `removed`: the line before it; for `rule` and `statement`: a line near it); `unless`
must match no added line of the file (for `removed`: of the change, without comments; for `rule` and `statement`: no
line near it). `guarded` spares a `rule` or `statement` whose value is restricted to known ones by the code around it,
and to folders and hosts where it names a place (_guards.py). One of `needles` must occur in the text, which makes the
rules fast. `paths` are patterns, in lower case, of the only files that a rule reads. Outside of code (tests,
documentation, generated and vendored files) a rule of type `security` weighs as much as in code, as builds run those
files; one that is `lighter_outside`, and every other, weighs one step less there. `bad` is found and `good` is not;
tests run both, and `bad` with other names, in another order and with one step of indirection. `frail` names those of
the three that the rule does not survive. A rule that is `filled_in` reads Python only after names are filled in, so
that a remaining name is unknown. One that `spares_moved` does not report a statement whose match is also in the removed
lines. One that counts `by_value` reports an assignment only where its value, and not what it is set on, is added. One
that is `worse_unconditional` is high in code where neither a branch nor a name around the line says that somebody chose
it (_unconditional.py). A rule on statements yields to another with an equal severity on the line.

ast-grep compiles a rule at each call, which is nearly all that a rule on a tree costs: with every shared part of its
language and Unicode's classes 1 to 7 ms, with the parts that it names and classes of ASCII a tenth. So `tree_rules`
gives it only those.
"""

import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import re2

from scoring.diff.globs import clean_path, first_match
from scoring.diff.paths import Role
from scoring.scanners._text import GRAMMARS, Language
from scoring.types import FlagType, Severity

FOLDER = Path(__file__).with_name("rules")
Rewriting = Literal["names", "order", "indirection"]
SHARED = "shared.yml"  # parts of rules on trees, by language
PATTERNS = "patterns.yml"  # parts of expressions for statements
_NAMED = re.compile(r"\{([a-z]+(?:-[a-z]+)*)\}")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One rule; the module documents its fields. `roles` empty: everywhere."""

    id: str
    severity: Severity
    message: str
    bad: str
    good: str
    type: FlagType | None = None
    languages: tuple[Language, ...] = ()
    roles: tuple[Role, ...] = ()
    paths: tuple[str, ...] = ()
    needles: tuple[str, ...] = ()
    rule: dict[str, Any] | None = None
    constraints: dict[str, Any] = {}
    lines: str | None = None
    removed: str | None = None
    statement: str | None = None
    spares: str | None = None
    holes: str | None = None
    within: str | None = None
    as_written: bool = False
    beside: str | None = None
    unless: str | None = None
    lighter_outside: bool = False
    guarded: Literal["value", "place"] | None = None
    filled_in: bool = False
    spares_moved: bool = False
    by_value: bool = False
    worse_unconditional: bool = False
    frail: tuple[Rewriting, ...] = ()

    def __post_init__(self) -> None:
        if [self.rule, self.lines, self.removed, self.statement].count(None) != 3:
            raise ValueError(f"the rule {self.id} needs exactly one of rule, lines, removed and statement")

    @property
    def weighs_everywhere(self) -> bool:
        """Return whether the rule weighs as much outside of code."""
        return bool(self.roles) or (self.type == "security" and not self.lighter_outside)

    @cached_property
    def pattern(self) -> "re2._Regexp":
        """Compile `lines`, `removed` or `statement`."""
        return re2.compile(self.lines or self.removed or with_patterns(self.statement or ""))

    @cached_property
    def spared(self) -> "re2._Regexp | None":
        """Compile `spares`."""
        return re2.compile(with_patterns(self.spares)) if self.spares else None

    @cached_property
    def safe_values(self) -> "re2._Regexp | None":
        """Compile the part that `holes` names."""
        return re2.compile(with_patterns(_patterns()[self.holes])) if self.holes else None

    @cached_property
    def surroundings(self) -> "re2._Regexp | None":
        """Compile `within`."""
        return re2.compile(with_patterns(self.within)) if self.within else None

    @cached_property
    def exception(self) -> "re2._Regexp | None":
        """Compile `unless`."""
        return re2.compile(with_patterns(self.unless)) if self.unless else None

    @cached_property
    def companion(self) -> "re2._Regexp | None":
        """Compile `beside`."""
        return re2.compile(with_patterns(self.beside)) if self.beside else None

    def looks_at(self, path: str, part: Role) -> bool:
        """Return whether the rule is for files of this path and role."""
        is_meant = not self.paths or first_match(self.paths, clean_path(path).lower())
        return is_meant and (not self.roles or part in self.roles)

    def may_match(self, text: str) -> bool:
        """Return whether the text contains one of the rule's needles."""
        for needle in self.needles:  # a generator took a tenth of a whole review
            if needle in text:
                return True
        return not self.needles


class RuleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of rules; `languages` and `type` are defaults for its rules."""

    languages: tuple[Language, ...]
    rules: tuple[Rule, ...]
    type: FlagType = "security"


@cache
def rules() -> tuple[Rule, ...]:
    """Read every rule of every file. Raises msgspec.ValidationError for a malformed file."""
    return tuple(rule for name in _names() if name not in (SHARED, PATTERNS) for rule in _read(name))


@cache
def rules_for(language: Language) -> tuple[Rule, ...]:
    """Return the rules of one language; those on the syntax tree only where there is a grammar."""
    return tuple(rule for rule in rules() if language in rule.languages and (rule.rule is None or language in GRAMMARS))


@cache
def _needles() -> tuple[Any, tuple[str, ...]]:
    """Return the needles of all rules on trees and statements as one set, and the rules' ids in its order."""
    options = re2.Options()
    options.max_mem = 64 << 20  # bytes of the set's cached states, which are dropped when full
    needle_set = re2.Set.SearchSet(options)
    rules_with_needles = [rule for rule in rules() if rule.statement is not None or rule.rule is not None]
    for rule in rules_with_needles:
        needle_set.Add("|".join(map(re2.escape, rule.needles)))
    needle_set.Compile()
    return needle_set, tuple(rule.id for rule in rules_with_needles)


def may_read(text: str) -> set[str]:
    """Return the ids of the rules on trees and statements with a needle in a text, or without needles.

    One pass serves all rules: one call each took a third of a review.
    """
    needle_set, ids = _needles()
    return {ids[index] for index in needle_set.Match(text) or ()}


@cache
def shared_parts() -> dict[str, dict[str, Any]]:
    """Read the parts that rules name with `matches`, by language."""
    return _decode(SHARED, dict[str, dict[str, Any]])


def with_patterns(expression: str) -> str:
    """Insert the parts that an expression names in braces; those may name others."""
    while (reference := _NAMED.search(expression)) is not None:
        expression = f"{expression[: reference.start()]}(?:{_patterns()[reference[1]]}){expression[reference.end() :]}"
    return expression


@cache
def visitor_values() -> "re2._Regexp":
    """Compile the expression that matches a visitor's input in any language."""
    return re2.compile(f"({with_patterns(_patterns()['visitor'])})")


@cache
def safe_in_shell() -> "re2._Regexp":
    """Compile the expression of values that are safe in a shell command, in any language."""
    return re2.compile(with_patterns(_patterns()["safe-in-shell"]))


@cache
def cleaning() -> "re2._Regexp":
    """Compile the expression of calls that make a value safe for some use, in any language."""
    return re2.compile(with_patterns(_patterns()["cleaned"]))


@cache
def hiding() -> "re2._Regexp":
    """Compile the expression of calls that decode an unreadable text, in any language."""
    return re2.compile(with_patterns(_patterns()["decoded"]))


@cache
def _patterns() -> dict[str, str]:
    return _decode(PATTERNS, dict[str, str])


def _names() -> list[str]:
    return sorted(file.name for file in FOLDER.glob("*.yml"))


def _read(name: str) -> list[Rule]:
    file = _decode(name, RuleFile)
    rules_with_defaults = [(rule, rule.languages or file.languages, rule.type or file.type) for rule in file.rules]
    return [
        msgspec.structs.replace(rule, languages=languages, type=kind) for rule, languages, kind in rules_with_defaults
    ]


def _decode(name: str, kind: Any) -> Any:
    import msgspec.yaml  # its parser takes 20 ms to import, which only a review needs

    return msgspec.yaml.decode((FOLDER / name).read_bytes(), type=kind)


_PIECE = re.compile(r"\\.|.", re.DOTALL)
_WITHIN = {r"\w": "0-9A-Za-z_", r"\d": "0-9", r"\s": r" \t\r\n\f"}  # between brackets
_OUTSIDE = {**{name: f"[{inner}]" for name, inner in _WITHIN.items()}, r"\S": r"[^ \t\r\n\f]", r"\b": r"(?-u:\b)"}


@cache
def tree_rules(language: Language) -> dict[str, Any]:
    """Return the configuration of ast-grep for each rule of a language, by the rule's id."""
    shared = {name: in_ascii(part) for name, part in shared_parts().get(language, {}).items()}
    return {
        rule.id: {
            "rule": in_ascii(rule.rule),
            "constraints": in_ascii(rule.constraints),
            "utils": {name: shared[name] for name in named_parts(rule.rule)},
        }
        for rule in rules_for(language)
        if rule.rule is not None
    }


def named_parts(part: Any) -> set[str]:
    """Return the shared parts that a rule names; those name no others."""
    if isinstance(part, list):
        return {name for child in part for name in named_parts(child)}
    if not isinstance(part, dict):
        return set()
    own = {part["matches"]} if "matches" in part else set()
    return own.union(*(named_parts(child) for child in part.values()))


def in_ascii(part: Any) -> Any:
    """Return the rule with the classes of its expressions written out in ASCII."""
    if isinstance(part, list):
        return [in_ascii(child) for child in part]
    if not isinstance(part, dict):
        return part
    return {name: _ascii_classes(child) if name == "regex" else in_ascii(child) for name, child in part.items()}


def _ascii_classes(expression: str) -> str:
    pieces, inside = [], False
    for piece in _PIECE.findall(expression):
        inside = piece == "[" or (inside and piece != "]")
        pieces.append((_WITHIN if inside else _OUTSIDE).get(piece, piece))
    return "".join(pieces)
