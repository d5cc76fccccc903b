"""Versions against advisories: OSV's evaluation at its edges, in the order of each ecosystem."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as some
from packaging.version import InvalidVersion, Version

from ingest.lookups.osv import import_osv
from ingest.store.database import Store
from scoring.packages.entry import Event, Kind, Package, is_affected, is_lower, parse_version
from scoring.scanners.dependencies import advisories_in, find_advisories
from tests.ingest.lookups.osv_records import folder_of, record
from tests.stores import fresh_store


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    store = fresh_store(tmp_path / "store" / "trust.duckdb")
    yield store
    store.close()


def bounds(*told: tuple[Kind, str]) -> list[Event]:
    return [Event(kind, version) for kind, version in told]


def names(store: Store, *packages: Package) -> list[list[str]]:
    with store.read() as found:
        return [[one.id for one in answer] for answer in find_advisories(found, packages)]


@pytest.mark.parametrize(
    ("ecosystem", "version", "affected"),
    [
        ("PyPI", "1.9.9", True),
        ("PyPI", "2.0.dev1", True),
        ("PyPI", "2.0rc1", True),
        ("PyPI", "2.0", False),
        ("PyPI", "2", False),
        ("PyPI", "2.0.0", False),
        ("PyPI", "2.0.post1", False),
        ("PyPI", "2.0+local", False),
        ("PyPI", "1!1.0", False),
        ("PyPI", "0.dev0", True),
        ("npm", "2.0.0-rc.1", True),
        ("npm", "2.0.0-0", True),
        ("npm", "2.0.0", False),
        ("npm", "2.0.0+build.1", False),
        ("npm", "v1.0.0", True),
        ("npm", "0.0.0-alpha", True),
        ("crates.io", "2.0.0-alpha.10", True),
        ("crates.io", "2.0.0", False),
        ("Go", "1.99.0", True),
        ("Go", "2.0.0-20200101000000-abcdefabcdef", True),
        ("Go", "2.0.0+incompatible", False),
        ("RubyGems", "2.0.0.pre1", True),
        ("RubyGems", "2.0.0.rc1", True),
        ("RubyGems", "2.0", False),
        ("RubyGems", "1.10", True),
        ("Maven", "2.0-SNAPSHOT", True),
        ("Maven", "2.0-alpha-1", True),
        ("Maven", "2.0", False),
        ("Maven", "2.0-1", False),
    ],
)
def test_pre_releases_stand_where_their_ecosystem_puts_them(ecosystem: str, version: str, affected: bool) -> None:
    before_two = bounds(("introduced", "0"), ("fixed", "2.0.0"))
    assert is_affected(ecosystem, version, [before_two], []) is affected


@pytest.mark.parametrize(
    ("version", "affected"),
    [("0.9", False), ("1.0", True), ("1.4", True), ("1.5", False), ("2.0", True), ("2.9", True), ("2.9.1", False)],
)
def test_several_spans_of_one_range_are_told_apart_in_whatever_order_they_are_written(
    version: str, affected: bool
) -> None:
    told = bounds(("introduced", "1.0"), ("fixed", "1.5"), ("introduced", "2.0"), ("last_affected", "2.9"))
    assert is_affected("PyPI", version, [told], []) is affected
    assert is_affected("PyPI", version, [told[::-1]], []) is affected


@pytest.mark.parametrize(("version", "affected"), [("1.0", True), ("2.9", True), ("3.0", False), ("4.0", False)])
def test_a_limit_ends_what_nothing_fixes(version: str, affected: bool) -> None:
    assert is_affected("PyPI", version, [bounds(("introduced", "0"), ("limit", "3.0"))], []) is affected
    assert is_affected("PyPI", version, [bounds(("introduced", "0"), ("limit", "*"))], [])


def test_a_listed_version_is_affected_in_whatever_spelling() -> None:
    assert is_affected("PyPI", "1.0.0", [], ["1.0"])
    assert is_affected("PyPI", "0.7.1.fix1", [], ["0.7.1.fix1"])
    assert not is_affected("PyPI", "1.0.1", [], ["1.0"])
    assert is_affected("Go", "v1.2.0", [], ["1.2.0"])


def test_what_is_no_version_is_in_no_range_and_a_range_with_such_a_bound_says_nothing() -> None:
    assert not is_affected("PyPI", "main", [bounds(("introduced", "0"))], [])
    assert not is_affected("PyPI", "1.0", [bounds(("introduced", "0"), ("fixed", "2019-09-12"))], [])
    assert not is_affected("npm", "1.2.3.4", [bounds(("introduced", "0"))], [])
    assert not is_affected("Cargo", "1.0", [bounds(("introduced", "0"))], ["2.0"])


def test_without_a_version_only_what_affects_all_of_them_counts() -> None:
    assert is_affected("npm", None, [bounds(("introduced", "0"))], [])
    assert not is_affected("npm", None, [bounds(("introduced", "0"), ("fixed", "2.0.0"))], [])
    assert not is_affected("npm", None, [bounds(("introduced", "1.0.0"))], ["1.0.0"])


NUMBERS = some.tuples(some.integers(0, 3), some.integers(0, 3)).map(lambda pair: f"{pair[0]}.{pair[1]}")


@given(NUMBERS, some.lists(some.tuples(some.sampled_from(["introduced", "fixed"]), NUMBERS), max_size=6))
def test_the_newest_event_up_to_a_version_decides(version: str, told: list[tuple[Kind, str]]) -> None:
    """Against the evaluation written out plainly; an introduction and a fix at one version leave it affected."""
    ordered = sorted(told, key=lambda pair: (Version(pair[1]), pair[0] == "introduced"))
    state = False
    for kind, at in ordered:
        if Version(at) <= Version(version):
            state = kind == "introduced"
    assert is_affected("PyPI", version, [bounds(*told)], []) is state


@given(some.sampled_from(["PyPI", "npm", "crates.io", "Go", "RubyGems", "Maven", "x"]), some.text(max_size=20))
def test_any_text_is_a_version_or_none_and_never_lower_than_itself(ecosystem: str, text: str) -> None:
    parse_version(ecosystem, text)
    assert not is_lower(ecosystem, text, text)


def sample(folder: Path, number: int) -> list[tuple[str, str, list[str], list[str]]]:
    """Id, name, intervals `[from,until)` and versions of advisories, the same ones every time."""
    with duckdb.connect() as database:
        return database.execute(
            "select id, name, intervals, versions from read_parquet(?) where withdrawn = '' order by hash(id) limit ?",
            [str(folder / "data" / "advisories.parquet"), number],
        ).fetchall()


def events_of(interval: str) -> list[dict[str, str]]:
    low, high = interval[1:-1].split(",")
    ends = [{"last_affected" if interval.endswith("]") else "fixed": high}] if high else []
    return [{"introduced": low}, *ends]


def is_expected(version: str, intervals: Sequence[str], listed: Sequence[str]) -> bool:
    """What the intervals say, by PEP 440's own library."""
    try:
        within = [_is_inside(Version(version), one) for one in intervals]
    except InvalidVersion:
        return version in listed
    return any(within) or any(_equal(version, one) for one in listed)


def _is_inside(version: Version, interval: str) -> bool:
    low, high = interval[1:-1].split(",")
    is_open = not high or version < Version(high) or (interval.endswith("]") and version == Version(high))
    return is_open and (low == "0" or Version(low) <= version)


def _equal(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def probes(intervals: Sequence[str]) -> Iterator[str]:
    """Each edge, the version just below it and the one just above."""
    for edge in {edge for one in intervals for edge in one[1:-1].split(",") if edge}:
        yield edge
        try:
            public = Version(edge).public
        except InvalidVersion:
            continue
        if "dev" not in public:
            yield f"{public}.dev0"
        if "post" not in public and "dev" not in public:
            yield f"{public}.post0"


def test_every_advisory_of_a_sample_of_200_is_matched_exactly_at_its_edges(
    shared: Path, store: Store, tmp_path: Path
) -> None:
    chosen = sample(shared, 200)
    never = [{"introduced": "0"}, {"limit": "0"}]  # for those that only name versions
    told = [
        record(identifier, name, [event for one in intervals for event in events_of(one)] or never, versions)
        for identifier, name, intervals, versions in chosen
    ]
    assert import_osv(store, folder_of(tmp_path / "osv", told)).kept == 200
    asked = [(version, one) for one in chosen for version in (*probes(one[2]), *one[3][:1], *one[3][-1:])]
    answers = names(store, *(Package("PyPI", one[1], version) for version, one in asked))
    wrong = [
        (one[0], version)
        for (version, one), answer in zip(asked, answers, strict=True)
        if (one[0] in answer) != is_expected(version, one[2], one[3])
    ]
    assert wrong == []
    assert len(asked) > 1_000


def test_of_two_names_of_one_advisory_the_graver_is_told_once(store: Store, tmp_path: Path) -> None:
    known = [
        record("PYSEC-1", aliases=["CVE-1"]),
        record("GHSA-1", aliases=["CVE-1"], database_specific={"severity": "HIGH"}),
        record("GHSA-2", database_specific={"severity": "LOW"}),
    ]
    import_osv(store, folder_of(tmp_path / "osv", known))
    asked = (Package("PyPI", "Flask", "1.0"), Package("PyPI", "flask", "3.0"), Package("npm", "flask", "1.0"))
    assert names(store, *asked) == [["GHSA-1", "GHSA-2"], [], []]
    with store.read() as found:
        ((first, _),) = advisories_in(found)(asked[:1])
    assert (first.severity, first.url) == ("high", "https://osv.dev/vulnerability/GHSA-1")


def test_nothing_known_and_nothing_asked_is_no_answer(store: Store) -> None:
    assert names(store) == []
    assert names(store, Package("PyPI", "flask", "1.0")) == [[]]
