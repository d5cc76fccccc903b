"""Dependencies that move: versions, sources, registries, hashes, lock files and advisories."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scoring.diff.change import Line
from scoring.packages.compare import FORMATS, Format
from scoring.packages.entry import Package, View
from scoring.scanners.dependencies import SCANNER, scan
from scoring.scanners.submission import Advisory
from scoring.types import Severity
from tests.growth import in_linear_time
from tests.scoring.diff.patched import submission
from tests.scoring.packages.manifests import (
    CARGO_LOCK,
    GEMFILE_LOCK,
    PACKAGE_JSON,
    PACKAGE_LOCK,
    POETRY_LOCK,
    YARN_LOCK,
    told,
)

LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH


@pytest.mark.parametrize(
    ("path", "text", "newer", "older"),
    [
        ("requirements.txt", "flask=={}\n", "3.0.0", "2.9"),
        ("requirements.txt", "flask>={}\n", "3.0", "3.0rc1"),
        ("pyproject.toml", '[project]\ndependencies = ["flask>={}"]\n', "3.10", "3.9"),
        ("package.json", PACKAGE_JSON.replace("3.22.4", "{}"), "3.10.0", "3.9.0"),
        ("Cargo.toml", '[dependencies]\nserde = "{}"\n', "1.10", "1.9"),
        ("go.mod", "module x\nrequire github.com/a/b v{}\n", "1.10.0", "1.9.0"),
        ("Gemfile", "gem 'rack', '~> {}'\n", "3.10", "3.9"),
        ("Gemfile.lock", GEMFILE_LOCK.replace("3.0.8", "{}"), "3.10.0", "3.9.0"),
    ],
)  # fmt: skip
def test_a_version_that_goes_back_is_a_finding_and_one_that_rises_is_none(
    path: str, text: str, newer: str, older: str
) -> None:
    assert told(path, text.replace("{}", newer), text.replace("{}", older)) == [("downgrade", "med")]
    assert told(path, text.replace("{}", older), text.replace("{}", newer)) == []


@pytest.mark.parametrize(
    ("path", "text", "rule", "severity"),
    [
        ("requirements.txt", "evil @ git+https://forge.example/evil.git\n", "git_source", "med"),
        ("requirements.txt", "git+https://forge.example/evil.git#egg=evil\n", "git_source", "med"),
        ("requirements.txt", "https://forge.example/evil.whl\n", "url_source", "med"),
        ("requirements.txt", "http://forge.example/evil.whl\n", "unencrypted_source", "high"),
        ("requirements.txt", "-e ./evil\n", "path_source", "low"),
        ("requirements.txt", "--extra-index-url https://evil.example/simple\n", "custom_index", "high"),
        ("requirements.txt", "-i http://pypi.org/simple\n", "unencrypted_index", "high"),
        ("pip.conf", "[global]\nindex-url = https://evil.example\n", "custom_index", "high"),
        ("pyproject.toml", '[[tool.uv.index]]\nurl = "https://evil.example"\n', "custom_index", "high"),
        ("pyproject.toml", '[tool.uv.sources]\nflask = { git = "https://forge.example/f" }\n', "git_source", "med"),
        ("Pipfile", '[[source]]\nurl = "https://evil.example"\n', "custom_index", "high"),
        ("package.json", '{"dependencies": {"x": "someone/x"}}\n', "git_source", "med"),
        ("package.json", '{"dependencies": {"x": "https://evil.example/x.tgz"}}\n', "url_source", "med"),
        ("package.json", '{"dependencies": {"x": "file:../x"}}\n', "path_source", "low"),
        (".npmrc", "@a:registry=https://evil.example/\n", "custom_index", "high"),
        (".yarnrc.yml", 'npmRegistryServer: "https://evil.example"\n', "custom_index", "high"),
        ("Cargo.toml", '[dependencies]\nx = { git = "https://forge.example/x" }\n', "git_source", "med"),
        ("Cargo.toml", '[patch.crates-io]\nserde = { git = "https://forge.example/x" }\n', "git_source", "med"),
        (".cargo/config.toml", '[source.crates-io]\nreplace-with = "evil"\n', "custom_index", "high"),
        ("go.mod", "module x\nreplace github.com/a/b => github.com/evil/b v1.0.0\n", "url_source", "med"),
        ("Gemfile", "gem 'rack', git: 'https://forge.example/rack.git'\n", "git_source", "med"),
        ("Gemfile", "source 'https://evil.example'\n", "custom_index", "high"),
    ],
)
def test_what_comes_from_elsewhere_than_the_registry_is_said(path: str, text: str, rule: str, severity: str) -> None:
    assert (rule, severity) in told(path, "", text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", "--index-url https://pypi.org/simple\n"),
        (".npmrc", "registry=https://registry.npmjs.org/\n"),
        ("Gemfile", "source 'https://rubygems.org'\n"),
        ("package-lock.json", PACKAGE_LOCK),
        ("Cargo.lock", CARGO_LOCK),
        ("Cargo.lock", CARGO_LOCK.replace("crates.io-index", "staging.crates.io-index")),
        ("yarn.lock", YARN_LOCK),
        ("Gemfile.lock", GEMFILE_LOCK),
    ],
)
def test_the_usual_registry_is_no_finding(path: str, text: str) -> None:
    assert {severity for _, severity in told(path, "", text)} <= {"low"}


@pytest.mark.parametrize(
    ("path", "text", "usual", "other"),
    [
        ("package-lock.json", PACKAGE_LOCK, "https://registry.npmjs.org/zod", "https://evil.example/zod"),
        ("package-lock.json", PACKAGE_LOCK, "npmjs.org/zod/", "npmjs.org.evil.example/zod/"),
        ("package-lock.json", PACKAGE_LOCK, "https://registry.npmjs.org/zod", "https://npmjs.org@evil.example/zod"),
        ("yarn.lock", YARN_LOCK, "registry.yarnpkg.com", "evil.example"),
        ("Cargo.lock", CARGO_LOCK, "github.com/rust-lang/", "github.com/evil/"),
        ("Cargo.lock", CARGO_LOCK, "rust-lang/crates.io-index", "rust-lang/crates.io-index/../../evil"),
        ("Cargo.lock", CARGO_LOCK, "rust-lang/crates.io-index", "rust-lang/.."),
        ("Cargo.lock", CARGO_LOCK, "rust-lang/crates.io-index", "rust-lang-evil/crates.io-index"),
        ("Cargo.lock", CARGO_LOCK, "https://github.com/rust-lang", "http://github.com/rust-lang"),
        ("Cargo.lock", CARGO_LOCK, "https://github.com/", "https://github.com@evil.example/"),
        ("Cargo.lock", CARGO_LOCK, "https://github.com/", "https://github.com.evil.example/"),
        ("Cargo.lock", CARGO_LOCK, "https://github.com/", "https://evil.example/"),
    ],
)
def test_a_lock_file_that_points_elsewhere_is_high(path: str, text: str, usual: str, other: str) -> None:
    assert told(path, text, text.replace(usual, other)) == [("lock_host", "high")]


def test_an_address_of_another_package_is_high() -> None:
    other = PACKAGE_LOCK.replace("npmjs.org/zod/-/zod-", "npmjs.org/evil/-/evil-")
    assert told("package-lock.json", PACKAGE_LOCK, other) == [("other_package", "high")]


@pytest.mark.parametrize("context", [0, 1, 3])
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("package-lock.json", PACKAGE_LOCK),
        ("Cargo.lock", CARGO_LOCK),
        ("poetry.lock", POETRY_LOCK),
        ("yarn.lock", YARN_LOCK),
    ],
)
def test_another_hash_of_the_same_version_is_high(path: str, text: str, context: int) -> None:
    assert ("hash_changed", "high") in told(path, text, text.replace("aaaa", "cccc"), context)


def test_another_hash_of_another_version_is_none() -> None:
    for path, text in (("package-lock.json", PACKAGE_LOCK), ("Cargo.lock", CARGO_LOCK), ("poetry.lock", POETRY_LOCK)):
        newer = text.replace("3.22.4", "3.23.0").replace("1.0.190", "1.0.191").replace("2.31.0", "2.32.0")
        assert told(path, text, newer.replace("aaaa", "cccc").replace("bbbb", "dddd")) == []


def test_a_hash_of_another_kind_and_a_further_file_are_no_other_hash() -> None:
    assert told("yarn.lock", YARN_LOCK, YARN_LOCK.replace("sha512-aaaa", "sha1-cccc")) == []
    further = POETRY_LOCK.replace("]\n\n[", '    {file = "requests-2.31.0-cp.whl", hash = "sha256:cc"},\n]\n\n[')
    assert told("poetry.lock", POETRY_LOCK, further) == []


def test_a_changed_go_sum_line_is_a_changed_hash() -> None:
    line = "github.com/a/b v1.0.0 h1:{}=\ngithub.com/a/b v1.0.0/go.mod h1:x=\n"
    assert told("go.sum", line.format("one"), line.format("two")) == [("hash_changed", "high")]
    assert told("requirements.txt", "a==1 \\\n  --hash=sha256:aa\n", "a==1 \\\n  --hash=sha256:bb\n") == [
        ("hash_changed", "high")
    ]


def test_a_lock_file_that_changes_without_its_manifest_is_said() -> None:
    newer = PACKAGE_LOCK.replace("3.22.4", "3.23.0").replace("aaaa", "bbbb")
    alone = {"web/package-lock.json": (PACKAGE_LOCK, newer)}
    beside = {**alone, "web/package.json": (PACKAGE_JSON, PACKAGE_JSON.replace("3.22.4", "3.23.0"))}
    elsewhere = {**alone, "api/package.json": (PACKAGE_JSON, PACKAGE_JSON.replace("3.22.4", "3.23.0"))}
    assert [(one.rule, one.severity) for one in scan(submission(alone))] == [("lock_alone", LOW)]
    assert list(scan(submission(beside))) == []
    assert [one.rule for one in scan(submission(elsewhere))] == ["lock_alone"]


def advised(packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
    """Each package's version names the severity of the advisory that it falls under."""
    kinds = {"1.0": "critical", "2.0": "moderate", "3.0": None}
    identifiers = ["MAL-1" if one.name == "evil" else "GHSA-1" for one in packages]
    return [
        (Advisory(name, "", kinds[one.version], ""),) if one.version in kinds else ()
        for name, one in zip(identifiers, packages, strict=True)
    ]


@pytest.mark.parametrize(
    ("line", "rule", "severity"),
    [
        ("flask==1.0", "advisory", HIGH),
        ("flask==2.0", "advisory", MED),
        ("flask==3.0", "advisory", MED),
        ("flask>=1.0", "advisory", MED),
        ("evil>=2.0", "malware", HIGH),
    ],
)
def test_a_version_under_an_advisory_weighs_what_the_advisory_says(line: str, rule: str, severity: Severity) -> None:
    found = scan(submission({"requirements.txt": ("idna\n", f"idna\n{line}\n")}, advisories=advised))
    assert [(one.rule, one.severity) for one in found if one.rule != "new_dependency"] == [(rule, severity)]


def test_a_version_that_only_moved_or_comes_from_elsewhere_is_not_looked_up() -> None:
    asked: list[Package] = []

    def ask(packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
        asked.extend(packages)
        return [() for _ in packages]

    before, after = "a==1.0\nb==1.0\n", "b==1.0\na==1.0\nc @ https://x.example/c.whl\nd==2\n"
    list(scan(submission({"requirements.txt": (before, after)}, advisories=ask)))
    assert asked == [Package("PyPI", "d", "2")]


def test_the_gravest_findings_come_first_and_all_carry_their_line() -> None:
    text = "idna\n-i https://evil.example\nx @ git+https://forge.example/x\n"
    found = list(scan(submission({"requirements.txt": ("flask\n", text)})))
    assert [one.severity for one in found] == [HIGH, MED, LOW, LOW]
    assert all(one.scanner == SCANNER and one.line and one.quote for one in found)


def test_a_hostile_name_is_shown_escaped_and_cut() -> None:
    text = '{"dependencies": {"e\\u202evil": "1.0.0", "' + "x" * 300 + '": "1"}}\n'
    found = list(scan(submission({"package.json": ("", text)})))
    assert found
    for one in found:
        assert one.explanation.isascii() or "…" in one.explanation
        assert "\u202e" not in one.explanation
        assert len(one.explanation) < 250


LINES = some.text("[]{}\"'=:,#\\ \t.-@abdepnrvx0123^~></", max_size=40) | some.sampled_from(
    [
        text
        for sample in (PACKAGE_LOCK, CARGO_LOCK, POETRY_LOCK, YARN_LOCK, GEMFILE_LOCK)
        for text in sample.splitlines()
    ]
)


@given(some.sampled_from(FORMATS), some.lists(LINES, max_size=30), some.booleans())
def test_whatever_the_lines_hold_they_are_read(kind: Format, texts: list[str], at_top: bool) -> None:
    lines = tuple(Line("+", None, number, text) for number, text in enumerate(texts, 1))
    for item in kind.read(View(lines, at_top)):
        assert item.line in lines


@pytest.mark.parametrize(
    "text", ["[" * 20_000, '"' * 20_000, '\\"' * 10_000, "a" * 20_000, "{[" * 9_000, "a-" * 9_000 + "!"]
)
def test_a_line_made_to_be_slow_is_read_at_once(text: str) -> None:
    def twice(size: int) -> View:
        line = text[:size]
        return View((Line("+", None, 1, line), Line("+", None, 2, line)), hint=line)

    for kind in FORMATS:
        in_linear_time(lambda view, kind=kind: list(kind.read(view)), twice, len(text))
