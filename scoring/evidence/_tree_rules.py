"""Rules on the syntax tree as ast-grep is given them, made cheap to compile.

ast-grep compiles a rule anew at each call, and that is nearly all that a rule costs: with every shared part of its
language and Unicode's classes 1 to 7 ms, with the parts that it names and classes of ASCII a tenth.
"""

import re
from functools import cache
from typing import Any

from scoring.evidence._languages import Language
from scoring.evidence._rules import rules_for, shared_parts

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
        return {name for one in part for name in named_parts(one)}
    if not isinstance(part, dict):
        return set()
    own = {part["matches"]} if "matches" in part else set()
    return own.union(*(named_parts(one) for one in part.values()))


def in_ascii(part: Any) -> Any:
    """Return the rule with the classes of its expressions written out in ASCII."""
    if isinstance(part, list):
        return [in_ascii(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {name: _ascii_classes(one) if name == "regex" else in_ascii(one) for name, one in part.items()}


def _ascii_classes(expression: str) -> str:
    pieces, inside = [], False
    for piece in _PIECE.findall(expression):
        inside = piece == "[" or (inside and piece != "]")
        pieces.append((_WITHIN if inside else _OUTSIDE).get(piece, piece))
    return "".join(pieces)
