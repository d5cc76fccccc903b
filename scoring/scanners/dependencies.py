"""Find dependencies that a change adds, moves to another version or another source, and advisories about them.

Advisories are read from the store's tables or a snapshot's. A new package is named with its age and downloads.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ingest.lookups.osv import normalised
from ingest.store.transaction import Rows
from scoring.diff.change import Change, Line
from scoring.packages.compare import CHARACTERS, ENTRIES, Comparison, comparisons, named_packages
from scoring.packages.entry import (
    Entry,
    Event,
    Package,
    is_affected,
    is_lower,
    is_unencrypted,
    is_usual,
    names_other_package,
    place_of,
)
from scoring.scanners._finding_helpers import number_of, quoted, shown
from scoring.scanners.submission import Advisory, Knowledge, Submission
from scoring.types import Finding, Severity

SCANNER = "dependencies"
LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH
_OWN = (".", "./", "file:.", "file:./")  # the project itself
_GRAVE = ("critical", "high", "malware")
# Nearly every project builds with these: a new one is an ordinary dependency.
_BUILD_TOOLS = frozenset(
    {"setuptools", "setuptools-scm", "wheel", "hatchling", "hatch-vcs", "flit-core", "poetry-core"}
)
_ORDER = {HIGH: 0, MED: 1, LOW: 2}


def scan(submission: Submission) -> Iterator[Finding]:
    """Return every finding on dependencies, gravest first."""
    files = comparisons(submission.change)
    findings = [finding for file in files for rule in RULES for finding in rule(file)]
    findings += [finding for file in files for finding in _new(file, submission.knowledge)]
    findings += _advisories(files, submission.knowledge)
    findings += _without_manifest(files, submission.change)
    return iter(sorted(findings, key=lambda finding: _ORDER[finding.severity]))


def _finding(comparison: Comparison, rule: str, severity: Severity, line: Line | None, explanation: str) -> Finding:
    return Finding(
        SCANNER,
        rule,
        "security",
        severity,
        explanation,
        comparison.file.path,
        number_of(line) if line else None,
        quoted(line.text) if line else "",
    )


def _new(comparison: Comparison, knowledge: Knowledge) -> Iterator[Finding]:
    """Yield new names: each one in a manifest, their number in a lock file."""
    new = [entry for entry in comparison.new() if entry.line.mark == "+"]
    if comparison.format.is_lock:
        if new:
            count = f"{len(new)} packages" if len(new) > 1 else "a package"
            words = f"{count} that the hunks did not name before, {shown(new[0].name)} first: look at what pulls it in"
            yield _finding(comparison, "new_in_lock", LOW, new[0].line, f"The lock file gains {words}.")
        return
    ecosystem = comparison.format.ecosystem
    packages = [Package(ecosystem, entry.name, entry.version or entry.floor) for entry in new]
    for entry, publication in zip(new, knowledge.publications(packages), strict=True):
        name = f"{shown(entry.name)}{publication.in_words()}"
        if entry.group == "build" and entry.name not in _BUILD_TOOLS:
            words = "is run while this is built or installed: see what it does and who publishes it."
            yield _finding(comparison, "new_at_build", MED, entry.line, f"{name} is new and {words}")
        else:
            unseen = " (the hunk does not show in which section)" if entry.group == "unknown" else ""
            words = f"is a new dependency{unseen}: see that it is needed, and who publishes it."
            yield _finding(comparison, "new_dependency", LOW, entry.line, f"{name} {words}")


def _install_scripts(comparison: Comparison) -> Iterator[Finding]:
    for entry in comparison.changed():
        if entry.runs_on_install:
            words = "brings a script that runs when it is installed: read it before anybody installs this."
            yield _finding(comparison, "install_script", MED, entry.line, f"{shown(entry.name)} {words}")


def _downgrades(comparison: Comparison) -> Iterator[Finding]:
    for move in comparison.moves():
        if is_lower(comparison.format.ecosystem, move.after, move.before):
            versions = f"from {shown(move.before)} back to {shown(move.after)}"
            words = f"{shown(move.entry.name)} goes {versions}: what was fixed in between comes back."
            yield _finding(comparison, "downgrade", MED, move.entry.line, words)


def _sources(comparison: Comparison) -> Iterator[Finding]:
    """Yield entries from outside the usual registry, unless they came from there before."""
    ecosystem = comparison.format.ecosystem
    before = comparison.before.entries
    known = {
        place_of(ecosystem, each_entry.url) for entries in before.values() for each_entry in entries if each_entry.url
    }
    for entry in comparison.after.entries.values():
        for each_entry in entry:
            existed = any(
                old.source == each_entry.source and old.url == each_entry.url for old in before.get(each_entry.name, ())
            )
            if not each_entry.touched or not each_entry.url or existed or each_entry.url.partition("[")[0] in _OWN:
                continue
            rule, severity, words = _judged_source(ecosystem, each_entry, known, comparison.format.is_lock)
            if rule:
                yield _finding(
                    comparison, rule, severity, each_entry.line, f"{shown(each_entry.name) or 'A dependency'} {words}"
                )


def _judged_source(ecosystem: str, entry: Entry, known: set[str], is_lock: bool) -> tuple[str, Severity, str]:
    """Return rule, severity and words for the source of an entry; no rule where it is fine."""
    if is_unencrypted(entry.url):
        return "unencrypted_source", HIGH, "is fetched without encryption: anybody on the way can replace it."
    if entry.source == "git":
        return "git_source", MED, "comes from a git repository and not from the registry: see whose it is."
    if entry.source == "path":
        return "path_source", LOW, "comes from a folder: see that it lies in this repository and what is in it."
    if entry.source == "url":
        return "url_source", MED, "comes from an address and not from the registry: see whose it is."
    if names_other_package(ecosystem, entry.url, entry.name):
        return "other_package", HIGH, "is fetched from the address of a package of another name."
    place = place_of(ecosystem, entry.url)
    if is_lock and place and not is_usual(ecosystem, entry.url) and place not in known:
        return "lock_host", HIGH, f"is fetched from {shown(place)}, which is not the usual registry."
    return "", LOW, ""


def _indexes(comparison: Comparison) -> Iterator[Finding]:
    for index in comparison.new_indexes():
        if is_unencrypted(index.url):
            words = "names a place to take packages from without encryption: anybody on the way can replace them."
            yield _finding(comparison, "unencrypted_index", HIGH, index.line, f"The option {index.option} {words}")
        elif not is_usual(comparison.format.ecosystem, index.url):
            words = "has packages taken from another place than the usual registry, which may shadow their names."
            yield _finding(comparison, "custom_index", HIGH, index.line, f"The option {index.option} {words}")


def _hashes(comparison: Comparison) -> Iterator[Finding]:
    for digest in comparison.other_hashes():
        package_words = shown(digest.of.rpartition("@")[0] or digest.of) if digest.of else "an entry"
        words = "changes while its version stays: what a registry published under a version never changes."
        yield _finding(comparison, "hash_changed", HIGH, digest.line, f"The hash of {package_words} {words}")


def _cut(comparison: Comparison) -> Iterator[Finding]:
    if comparison.cut:
        most = f"{ENTRIES:,} dependencies, {CHARACTERS:,} characters of a change"
        words = f"The file is longer than what is read ({most}): the rest was not looked at."
        yield Finding(SCANNER, "too_many", "oversized", MED, words, comparison.file.path)


RULES: tuple[Callable[[Comparison], Iterator[Finding]], ...] = (
    _indexes,
    _sources,
    _hashes,
    _downgrades,
    _install_scripts,
    _cut,
)


def _advisories(files: Sequence[Comparison], knowledge: Knowledge) -> Iterator[Finding]:
    """Yield a finding for each advisory and dependency; an advisory on the lowest version of a range weighs less."""
    packages = named_packages(files)
    if not packages:
        return
    answers = knowledge.advisories([package for _, _, package in packages])
    for (comparison, entry, package), advisories in zip(packages, answers, strict=True):
        for advisory in advisories:
            yield _advised(comparison, entry, package, advisory)


def _advised(comparison: Comparison, entry: Entry, package: Package, advisory: Advisory) -> Finding:
    is_malware = advisory.id.startswith("MAL-") or advisory.severity == "malware"
    grave = is_malware or (advisory.severity in _GRAVE and entry.version is not None)
    package_words = f"{shown(entry.name)} {shown(package.version or '')}".strip()
    if is_malware:
        words = f"{package_words} is known malware ({shown(advisory.id)}): do not install it."
    elif entry.version is None:
        words = f"{package_words}, the lowest version that is allowed, falls under {shown(advisory.id)}: raise it."
    else:
        words = f"{package_words} falls under {shown(advisory.id)}: see which version fixes it."
    return _finding(comparison, "malware" if is_malware else "advisory", HIGH if grave else MED, entry.line, words)


def _without_manifest(files: Sequence[Comparison], change: Change) -> Iterator[Finding]:
    """Yield lock files with changed versions where none of their manifests changes."""

    paths = [PurePosixPath(file.path) for file in change.files]
    for comparison in files:
        if not comparison.format.is_lock or comparison.file.kind == "added":
            continue
        folder, manifests = PurePosixPath(comparison.file.path).parent, re.compile(comparison.format.manifests)
        beside = (path for path in paths if folder == path.parent or folder in path.parents)
        changed = [entry for entry in comparison.changed() if entry.line.mark == "+"]
        if changed and not any(manifests.fullmatch(path.name) for path in beside):
            words = "The lock file changes and no manifest beside it does: have the lock file made anew and compare."
            yield _finding(comparison, "lock_alone", LOW, changed[0].line, words)


PAGE = "https://osv.dev/vulnerability/"  # an id is checked before it is stored (ingest/lookups/osv.py)
ASKED = 5_000  # packages at once; a lock file of more is answered in parts
_WANTED = "(select distinct unnest(?::varchar[]) as ecosystem, unnest(?::varchar[]) as name)"
RANGES = f"""
select ecosystem, name, advisory_id, range_number, event, version
from advisory_ranges join {_WANTED} using (ecosystem, name)
"""
VERSIONS = f"""
select ecosystem, name, advisory_id, versions from advisory_versions join {_WANTED} using (ecosystem, name)
"""
ADVISORIES = """
select a.advisory_id, summary, severity, list(alias order by alias) filter (alias is not null) as aliases
from advisories a left join advisory_aliases using (advisory_id)
where a.advisory_id in (select unnest(?::varchar[])) group by all order by a.advisory_id
"""
_WEIGHTS = {"malware": 5, "critical": 4, "high": 3, "moderate": 2, "low": 1, None: 0}
Key = tuple[str, str]  # ecosystem and name


def advisories_in(rows: Rows) -> Callable[[Sequence[Package]], list[tuple[Advisory, ...]]]:
    """Return `find_advisories` on these rows, as Knowledge.advisories takes it."""
    return lambda packages: find_advisories(rows, packages)


def find_advisories(rows: Rows, packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
    """Return the advisories of each package, in the order of `packages`.

    Of one advisory's several names the gravest.
    """
    parts = (packages[begin : begin + ASKED] for begin in range(0, len(packages), ASKED))
    return [answer for part in parts for answer in _find(rows, part)]


def _find(rows: Rows, packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
    keys = [(package.ecosystem, normalised(package.ecosystem, package.name)) for package in packages]
    key_columns = [[ecosystem for ecosystem, _ in keys], [name for _, name in keys]]
    ranges, versions = _ranges(rows.rows(RANGES, key_columns)), _versions(rows.rows(VERSIONS, key_columns))
    ids_by_package = [
        sorted(
            advisory_id
            for advisory_id in ranges[key].keys() | versions[key].keys()
            if is_affected(
                key[0], package.version, ranges[key].get(advisory_id, ()), versions[key].get(advisory_id, ())
            )
        )
        for package, key in zip(packages, keys, strict=True)
    ]
    listed = rows.rows(ADVISORIES, [sorted({advisory_id for ids in ids_by_package for advisory_id in ids})])
    details = {row["advisory_id"]: row for row in listed}
    return [
        tuple(_distinct([details[advisory_id] for advisory_id in ids if advisory_id in details]))
        for ids in ids_by_package
    ]


def _ranges(rows: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, list[list[Event]]]]:
    """Return the ranges of each advisory on each package."""
    events: dict[Key, dict[str, dict[int, list[Event]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        bounds = events[row["ecosystem"], row["name"]][row["advisory_id"]][row["range_number"]]
        bounds.append(Event(row["event"], row["version"]))
    ranges: dict[Key, dict[str, list[list[Event]]]] = defaultdict(dict)
    for key, advisories in events.items():
        ranges[key] = {advisory_id: list(numbered.values()) for advisory_id, numbered in advisories.items()}
    return ranges


def _versions(rows: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, list[str]]]:
    """Return the versions that each advisory on each package names."""
    versions: dict[Key, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        versions[row["ecosystem"], row["name"]][row["advisory_id"]] += row["versions"]
    return versions


def _distinct(rows: Sequence[Mapping[str, Any]]) -> list[Advisory]:
    """Return one of each set of advisories that are aliases of each other, gravest first."""
    distinct: list[Advisory] = []
    seen_names: set[str] = set()
    for row in sorted(rows, key=lambda row: -_WEIGHTS.get(row["severity"], 0)):
        names = {row["advisory_id"], *(row["aliases"] or ())}
        if not names & seen_names:
            identifier = row["advisory_id"]
            distinct.append(Advisory(identifier, row["summary"], row["severity"], f"{PAGE}{identifier}"))
        seen_names |= names
    return distinct
