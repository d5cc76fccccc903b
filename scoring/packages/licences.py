"""Ranks licences by their demands, and reads the licence of a watched repository from its mirror.

The ranks decide whether code under one licence may enter a repository under another. The table is our own and only a
reason for a person to look, not legal advice: unknown licences are not judged.
"""

import json
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from ingest.errors import FetchProblem
from ingest.git.mirror import mirror_path
from ingest.git.process import Git
from ingest.store.transaction import Rows

LONGEST = 500  # characters of an expression


class Demand(IntEnum):
    """The demands of a licence, from least to most."""

    PERMISSIVE = 0  # credit
    WEAK = 1  # changes to these files or this library stay under it
    STRONG = 2  # the whole work comes under it
    NETWORK = 3  # also where it is only run for others
    RESTRICTED = 4  # some use is forbidden or paid for


WORDS = {
    Demand.PERMISSIVE: "permissive",
    Demand.WEAK: "weak copyleft",
    Demand.STRONG: "strong copyleft",
    Demand.NETWORK: "network copyleft",
    Demand.RESTRICTED: "restricted",
}
# By the beginning of the identifier; the first match counts. Others are not judged.
_DEMANDS: tuple[tuple[str, Demand], ...] = (
    (r"AGPL-|OSL-|RPL-|EUPL-|CPAL-|Parity-", Demand.NETWORK),
    (
        r"SSPL-|BUSL-|Elastic-|PolyForm-|CC-BY-(?:NC|ND)|CC-BY-.*-NC|Hippocratic-|JSON$|Commons-Clause",
        Demand.RESTRICTED,
    ),
    (r"LicenseRef-.*(?:[Pp]roprietary|[Cc]ommercial|[Cc]onfidential)", Demand.RESTRICTED),
    (r"LGPL|MPL-|EPL-|CDDL-|CPL-|MS-RL|APSL-|CECILL-C|IPL-|OFL-|SPL-|ErlPL-|Artistic-|QPL-", Demand.WEAK),
    (r"GPL-|CC-BY-SA-|CECILL-(?:1|2)|Sleepycat", Demand.STRONG),
    (
        r"MIT|Apache-|BSD-|0BSD|ISC|Zlib|Unlicense|CC0-|BSL-|PSF-|Python-|X11|NCSA|WTFPL|curl|PostgreSQL",
        Demand.PERMISSIVE,
    ),
    (
        r"BlueOak-|CC-BY-\d|CC-PDDC|HPND|ICU|Libpng|MS-PL|MulanPSL-|OpenSSL|Ruby|TCL|Unicode-|UPL-|W3C|AFL-",
        Demand.PERMISSIVE,
    ),
)
_COMPILED = tuple((re.compile(pattern), demand) for pattern, demand in _DEMANDS)
# (incoming, own): allowed by their demands, but forbidden by their terms.
_CONFLICTS = (
    (r"Apache-2\.0|GPL-3\.0|LGPL-3\.0", r"GPL-2\.0-only"),
    (r"GPL-2\.0-only", r"(?:A|L)?GPL-3\.0"),
    (r"CDDL-|EPL-1\.0|MPL-1|CPL-|BSD-4-Clause", r"(?:A)?GPL-"),
)
_CONFLICTING = tuple((re.compile(one), re.compile(other)) for one, other in _CONFLICTS)


@dataclass(frozen=True, slots=True)
class Licence:
    """A parsed SPDX expression. `demand` is None if a part of it is unknown."""

    text: str  # in canonical spelling if readable
    keys: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # parts that are not SPDX identifiers
    demand: Demand | None = None
    readable: bool = True


@lru_cache(maxsize=1)
def _licensing() -> Any:
    from license_expression import get_spdx_licensing  # .06 s; most changes do not name a licence

    return get_spdx_licensing()


@lru_cache(maxsize=512)
def parse_licence(text: str) -> Licence:
    """Parse an SPDX expression. OR is a choice, so the lowest demand counts; AND requires all."""
    from license_expression import ExpressionError
    from license_expression import ExpressionParseError as ParseError

    text = text.strip()[:LONGEST]
    try:
        tree = _licensing().parse(text, validate=False)
    except (ExpressionError, ParseError, RecursionError, IndexError):  # IndexError for empty brackets
        return Licence(text, readable=False)
    if tree is None:
        return Licence(text, readable=False)
    keys = tuple(dict.fromkeys(str(symbol.key) for symbol in _licensing().license_symbols(tree)))
    unknown = tuple(
        str(key) for key in _licensing().unknown_license_keys(tree) if not str(key).startswith("LicenseRef-")
    )
    return Licence(str(tree), keys, tuple(dict.fromkeys(unknown)), _demand_of(tree))


def _demand_of(tree: Any) -> Demand | None:
    kind = type(tree).__name__
    if kind in ("OR", "AND"):
        demands = [_demand_of(operand) for operand in tree.args]
        known_demands = [operand for operand in demands if operand is not None]
        if kind == "OR":
            return min(known_demands, default=None)
        return max(known_demands) if known_demands and len(known_demands) == len(demands) else None
    if kind == "LicenseWithExceptionSymbol":  # exceptions allow linking
        demand = demand_of_key(str(tree.license_symbol.key))
        return Demand.WEAK if demand == Demand.STRONG else demand
    return demand_of_key(str(tree.key))


def demand_of_key(key: str) -> Demand | None:
    return next((demand for pattern, demand in _COMPILED if pattern.match(key)), None)


def may_come_in(incoming: Licence, own: Licence) -> bool | None:
    """Return whether code under one licence may enter a repository under another; None if unknown.

    A repository under a restricted licence accepts at most weak copyleft; code under a restricted licence enters only a
    repository under the same one.
    """
    if incoming.text == own.text:
        return True
    if incoming.demand is None or own.demand is None:
        return None
    if Demand.RESTRICTED in (incoming.demand, own.demand):
        return incoming.demand <= Demand.WEAK
    no_choice = "OR" not in incoming.text.split() and "OR" not in own.text.split()
    if no_choice and any(
        incoming_pattern.match(key) and own_pattern.match(own_key)
        for incoming_pattern, own_pattern in _CONFLICTING
        for key in incoming.keys
        for own_key in own.keys
    ):
        return False
    return incoming.demand <= own.demand


LARGEST = 200_000  # bytes of a licence file
NAMES = ("LICENSE", "LICENCE", "COPYING", "UNLICENSE")
HEAD = """
select m.repository_id, m.head, m.refs from mirrors m join pull_requests p using (repository_id) where p.pull_uri = ?
"""
# Words that stand in one licence and in no other, once white space is one blank; the first that fits is meant.
TELLING: tuple[tuple[str, str], ...] = (
    ("AGPL-3.0-only", r"gnu affero general public license version 3"),
    ("LGPL-3.0-only", r"gnu lesser general public license version 3"),
    ("LGPL-2.1-only", r"gnu lesser general public license version 2\.1"),
    ("GPL-3.0-only", r"gnu general public license version 3"),
    ("GPL-2.0-only", r"gnu general public license version 2"),
    ("Apache-2.0", r"apache license version 2\.0"),
    ("MPL-2.0", r"mozilla public license,? version 2\.0"),
    ("EPL-2.0", r"eclipse public license - v 2\.0"),
    ("EUPL-1.2", r"european union public licence v\. 1\.2"),
    ("Unlicense", r"free and unencumbered software released into the public domain"),
    (
        "BSD-3-Clause",
        r"redistribution and use in source and binary forms.*(neither the name|names of its contributors)",
    ),
    ("BSD-2-Clause", r"redistribution and use in source and binary forms"),
    ("ISC", r"permission to use, copy, modify, and/?(or)? distribute this software for any purpose"),
    ("MIT", r"permission is hereby granted, free of charge, to any person obtaining a copy"),
)


def own_licence(rows: Rows, folder: Path, pull_uri: str) -> str | None:
    """The SPDX id of the target repository's licence file; None without a mirror or a licence that is known here."""
    row = rows.row(HEAD, [pull_uri])
    commit = json.loads(row["refs"]).get(row["head"]) if row else None
    return (
        None if row is None or commit is None else _licence_at(mirror_path(folder, row["repository_id"]), str(commit))
    )


def licence_of_text(text: str) -> str | None:
    """The SPDX id of the licence that this text is; None where it is none that is known here."""
    words = " ".join(text.lower().split())[:LARGEST]
    return next((name for name, pattern in TELLING if re.search(pattern, words)), None)


@lru_cache(maxsize=256)
def _licence_at(mirror: Path, commit: str) -> str | None:
    git = Git(mirror)
    try:
        names = git.run("ls-tree", "--name-only", "-z", commit, limit=LARGEST).decode("utf-8", "replace").split("\0")
        licence_files = [name for name in sorted(names) if name.upper().startswith(NAMES)]
        text = git.run("cat-file", "blob", f"{commit}:{licence_files[0]}", limit=LARGEST) if licence_files else b""
        return licence_of_text(text.decode("utf-8", "replace"))
    except FetchProblem:
        return None
