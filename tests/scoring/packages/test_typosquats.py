"""Names that imitate known ones: what is found, what is left alone, and the measure on real ones."""

from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.lookups.osv import ECOSYSTEMS, normalised
from scoring.packages.typosquats import KnownNames, curated_names, imitation, known_names
from scoring.scanners.typosquats import scan
from scoring.types import Severity
from tests.scoring.diff.patched import submission

KNOWN = KnownNames(frozenset({"requests", "numpy", "python-nmap", "cross-env", "beautifulsoup4", "@types/node", "six"}))
GO = KnownNames(frozenset({"github.com/boltdb/bolt", "github.com/sirupsen/logrus"}))
LEAST_COUNT = {"PyPI": 400, "npm": 300, "crates.io": 150, "Go": 80, "RubyGems": 120}


def names_of(folder: Path, sql: str) -> list[tuple[str, ...]]:
    with duckdb.connect() as database:
        rows = database.execute(sql.replace("SHARED", str(folder / "data"))).fetchall()
    return [tuple(normalised("PyPI", name) for name in row) for row in rows]


def squats(folder: Path) -> list[tuple[str, ...]]:
    columns = "malicious_package, target_package"
    return names_of(folder, f"select {columns} from 'SHARED/typosquats.parquet' where ecosystem = 'pypi'")


def honest(folder: Path) -> set[str]:
    return {name for (name,) in names_of(folder, "select distinct name from 'SHARED/advisories.parquet'")}


def test_of_95_malicious_names_at_least_88_are_found_at_no_more_than_3_of_664_honest_ones(shared: Path) -> None:
    pairs, others = squats(shared), honest(shared)
    known = KnownNames(frozenset(target for _, target in pairs))
    assert (len(pairs), len(others)) == (95, 664)
    missed = sorted(name for name, _ in pairs if imitation(name, known) is None)
    flagged = sorted(name for name in others if imitation(name, known))
    # PEP 503 takes my_package and my.package for my-package: that is no other name, so nothing imitates.
    assert missed == ["fairsequence", "my-package", "my-package", "pytoh", "torchtriton"]
    assert flagged == ["ipython", "tryton"]


def test_with_our_own_list_few_honest_names_are_flagged(shared: Path) -> None:
    known, others = known_names("PyPI", {}), honest(shared)
    flagged = {name for name in others if imitation(name, known)}
    assert len(flagged) <= 0.025 * len(others - known.names)


@pytest.mark.parametrize(
    ("name", "of", "kind"),
    [
        ("requsts", "requests", "spelling"),
        ("reqeusts", "requests", "spelling"),
        ("reque5ts", "requests", "lookalike"),
        ("rеquests", "requests", "lookalike"),  # noqa: RUF001 - a Cyrillic letter
        ("nurnpy", "numpy", "lookalike"),
        ("crossenv", "cross-env", "separators"),
        ("nmap-python", "python-nmap", "order"),
        ("requests-darwin-lite", "requests", "affix"),
        ("numpyjs", "numpy", "affix"),
        ("beautifulsoup-requests", "beautifulsoup4", "compound"),
        ("types-node", "@types/node", "scope"),
        ("@type/node", "@types/node", "spelling"),
    ],
)
def test_each_way_of_imitating_is_told(name: str, of: str, kind: str) -> None:
    found = imitation(name, KNOWN)
    assert found is not None
    assert (found.of, found.kind) == (of, kind)


@pytest.mark.parametrize(
    "name",
    ["requests", "@types/react", "sax", "numpy-requests", "requests-kerberos", "py-requests", "", "---", "x" * 999],
)
def test_an_honest_name_is_left_alone(name: str) -> None:
    assert imitation(name, KNOWN) is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("github.com/boltdb-go/bolt", "scope"),
        ("github.com/boltbd/bolt", "spelling"),
        ("githib.com/boltdb/bolt", "spelling"),
        ("github.com/boltdb/bold", None),  # the owner's own
        ("github.com/someone/bolt", None),  # a fork
    ],
)
def test_a_module_imitates_by_its_host_or_owner(path: str, kind: str | None) -> None:
    found = imitation(path, GO)
    assert (found and found.kind) == kind


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_the_own_list_is_long_enough_and_no_known_name_imitates_another(ecosystem: str) -> None:
    names = curated_names(ecosystem)
    assert len(names) >= LEAST_COUNT.get(ecosystem, 0)
    assert [name for name in names if imitation(name, KnownNames(names))] == []


@given(some.text(max_size=20), some.frozensets(some.text("abré1-@/", min_size=1, max_size=6), max_size=2))
def test_a_known_name_never_imitates_whatever_it_is(name: str, others: frozenset[str]) -> None:
    known = KnownNames(others | {name})
    assert imitation(name, known) is None
    for other in others:
        found = imitation(other + "x", known)
        assert found is None or found.of in known.names


def test_a_new_name_is_flagged_in_a_manifest_and_in_a_lock_file() -> None:
    lock = '[[package]]\nname = "serde_jsom"\nversion = "1.0.0"\nsource = "registry+https://github.com/x"\n'
    found = list(scan(submission({"requirements.txt": ("flask\n", "flask\nrequsts\n"), "Cargo.lock": ("", lock)})))
    assert [(one.file, one.line, one.severity) for one in found] == [
        ("requirements.txt", 2, Severity.HIGH),
        ("Cargo.lock", 3, Severity.HIGH),
    ]
    assert "nearly like requests" in found[0].explanation


def test_what_the_operator_knows_is_imitated_and_imitates_nothing() -> None:
    files = {"requirements.txt": ("", "requsts\nour-own-libary\n")}
    found = list(scan(submission(files, popular={"PyPI": frozenset({"requsts", "Our_Own_Library"})})))
    assert [one.quote for one in found] == ["our-own-libary"]


def test_a_name_that_stood_there_before_is_not_looked_at() -> None:
    assert list(scan(submission({"requirements.txt": ("requsts==1\n", "requsts==2\n")}))) == []


def test_a_repository_is_no_imitation_in_its_own_lock_file() -> None:
    """httpx was called a lookalike of http where its own crate stands in its own Cargo.lock."""
    own = '[[package]]\nname = "httpx"\nversion = "0.28.1"\ndependencies = [\n "hyper",\n]\n'
    fetched = '[[package]]\nname = "hyper"\nversion = "1.0.0"\nsource = "registry+https://github.com/rust-lang/crates.io-index"\n'
    assert list(scan(submission({"Cargo.lock": ("", f"{own}\n{fetched}")}))) == []
    attack = own.replace(
        "dependencies", 'source = "registry+https://github.com/rust-lang/crates.io-index"\ndependencies'
    )
    assert [one.rule for one in scan(submission({"Cargo.lock": ("", f"{attack}\n{fetched}")}))] == ["spelling"]
    alone = '[[package]]\nname = "httpx"\nversion = "0.28.1"\n'
    assert [one.rule for one in scan(submission({"Cargo.lock": ("", alone)}))] == ["spelling"]
