"""Dependencies that a change adds, moves or takes from elsewhere, in every format that is read."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scoring.content.change import Line
from scoring.content.finding import Severity
from scoring.content.submission import Advisory, Package
from scoring.evidence.dependencies import SCANNER, scan
from scoring.packages.entry import Entry, View
from scoring.packages.files import FORMATS, Format, format_of
from tests.scoring.patched import submission

LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH
PACKAGE_JSON = """{
  "name": "orchard",
  "version": "1.0.0",
  "scripts": {
    "test": "vitest"
  },
  "dependencies": {
    "react": "^18.2.0",
    "zod": "3.22.4"
  },
  "devDependencies": {
    "vitest": "^1.0.0"
  }
}
"""
PACKAGE_LOCK = """{
  "name": "orchard",
  "lockfileVersion": 3,
  "packages": {
    "": {
      "dependencies": {
        "zod": "3.22.4"
      }
    },
    "node_modules/zod": {
      "version": "3.22.4",
      "resolved": "https://registry.npmjs.org/zod/-/zod-3.22.4.tgz",
      "integrity": "sha512-aaaa",
      "license": "MIT"
    }
  }
}
"""
CARGO_LOCK = """version = 3

[[package]]
name = "serde"
version = "1.0.190"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "aaaa"
dependencies = [
 "serde_derive",
]
"""
POETRY_LOCK = """[[package]]
name = "requests"
version = "2.31.0"
description = "HTTP"
optional = false
python-versions = ">=3.7"
files = [
    {file = "requests-2.31.0-py3-none-any.whl", hash = "sha256:aaaa"},
    {file = "requests-2.31.0.tar.gz", hash = "sha256:bbbb"},
]

[package.dependencies]
idna = ">=2.5,<4"
"""
YARN_LOCK = """# yarn lockfile v1


zod@^3.22.0:
  version "3.22.4"
  resolved "https://registry.yarnpkg.com/zod/-/zod-3.22.4.tgz#aaaa"
  integrity sha512-aaaa
"""
GEMFILE_LOCK = """GEM
  remote: https://rubygems.org/
  specs:
    rack (3.0.8)
    rake (13.1.0)

PLATFORMS
  ruby
"""


def told(path: str, before: str, after: str, context: int = 3, **knowledge: object) -> list[tuple[str, str]]:
    """Rule and severity of each finding on one file, without the one on a lock file that changes alone."""
    found = scan(submission({path: (before, after)}, context, **knowledge))
    return [(one.rule, str(one.severity)) for one in found if one.rule != "lock_alone"]


def added(path: str, before: str, after: str, context: int = 3) -> list[str]:
    """The names of new dependencies, as a sentence gives them."""
    found = scan(submission({path: (before, after)}, context))
    return [one.explanation.split(" ")[0] for one in found if one.rule in ("new_dependency", "new_at_build")]


@pytest.mark.parametrize(
    ("path", "before", "after", "names"),
    [
        ("requirements.txt", "idna\n", "idna\nBeautiful_Soup4 >= 4 ; python_version > '3'\n", ["beautiful-soup4"]),
        ("requirements/dev.txt", "# tools\n", "# tools\nruff\n", ["ruff"]),
        (
            "pyproject.toml",
            '[project]\nname = "x"\ndependencies = [\n  "flask",\n]\n',
            '[project]\nname = "x"\ndependencies = [\n  "flask",\n  "httpx[http2]>=0.27",\n]\n',
            ["httpx"],
        ),
        ("pyproject.toml", "", '[project]\nkeywords = ["trust"]\ndependencies = ["a-b>1", "c"]\n', ["a-b", "c"]),
        ("pyproject.toml", "", '[tool.poetry.dependencies]\npython = "^3.11"\nidna = {version = "^3"}\n', ["idna"]),
        ("pyproject.toml", "", '[dependency-groups]\ntest = ["pytest", {include-group = "x"}]\n', ["pytest"]),
        ("setup.cfg", "", "[options]\ninstall_requires =\n    flask>=2\n    idna\n", ["flask", "idna"]),
        ("setup.py", "", "setup(name='x', install_requires=['flask>=2', \"idna\"])\n", ["flask", "idna"]),
        ("setup.py", "", "extras_require={\n    'fast': ['orjson>=3'],\n}\nopen('README.rst')\n", ["orjson"]),
        ("Pipfile", "", '[packages]\nflask = "*"\n\n[requires]\npython_version = "3.11"\n', ["flask"]),
        ("package.json", PACKAGE_JSON, PACKAGE_JSON.replace('"zod"', '"@a/b": "1.0.0",\n    "zod"'), ["@a/b"]),
        ("Cargo.toml", "", '[package]\nname = "x"\nversion = "1.0"\n\n[dependencies]\nserde = "1"\n', ["serde"]),
        ("Cargo.toml", "", '[dependencies.serde_json]\nversion = "1"\nfeatures = ["std"]\n', ["serde-json"]),
        ("Cargo.toml", "", "[target.'cfg(unix)'.dependencies]\nnix = \"0.27\"\n", ["nix"]),
        ("go.mod", "module x.test/y\n", "module x.test/y\n\nrequire github.com/a/b v1.2.3\n", ["github.com/a/b"]),
        ("Gemfile", "", "source 'https://rubygems.org'\ngem 'rack', '~> 3.0'\n", ["rack"]),
        ("x.gemspec", "", 'spec.add_dependency "rack", ">= 2"\n', ["rack"]),
    ],
)  # fmt: skip
def test_a_new_dependency_is_named_as_its_registry_names_it(
    path: str, before: str, after: str, names: list[str]
) -> None:
    assert added(path, before, after) == names


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("package.json", PACKAGE_JSON, PACKAGE_JSON.replace('"vitest"\n', '"vitest run"\n')),
        ("package.json", PACKAGE_JSON, PACKAGE_JSON.replace('"1.0.0"', '"1.1.0"')),
        ("pyproject.toml", '[project]\nkeywords = [\n  "a",\n]\n', '[project]\nkeywords = [\n  "a",\n  "b",\n]\n'),
        ("pyproject.toml", "[tool.ruff]\nline-length = 1\n", "[tool.ruff]\nline-length = 2\n"),
        ("pyproject.toml", "", '[project]\ndescription = """\n[tool.poetry.dependencies]\nx = "1"\n"""\n'),
        ("Cargo.toml", '[package]\nedition = "2018"\n', '[package]\nedition = "2021"\n'),
        ("requirements.txt", "flask==3.0\nidna\n", "idna\nflask==3.0\n"),
        ("go.mod", "module x\n", "module x\n\nexclude github.com/a/b v1.2.3\n"),
        ("setup.py", "", "setup(url='https://a.example', entry_points={'x': ['a = b:c']}, py='3.11')\n"),
        ("requirements.txt", "", "-e .[test]\n"),
        ("notes.txt", "", "flask==3.0\n"),
        ("requirements.txt", "flask==3.0\n", ""),
    ],
)
def test_what_is_no_new_dependency_is_no_finding(path: str, before: str, after: str) -> None:
    assert told(path, before, after) == []


def test_a_header_in_a_long_text_hides_no_dependency() -> None:
    text = '[project]\ndescription = """\n[tool.black]\n"""\ndependencies = ["evil"]\n'
    assert added("pyproject.toml", "", text) == ["evil"]


@pytest.mark.parametrize(
    "text",
    [
        '{"dependencies":{"evil":"1"}}\n',
        '{"dependencies"\n:\n{"\\u0065vil"\n:\n"1"}}\n',
        '{"x": [[[{"y": "}"}]]], "dependencies": {"evil": "1"}}\n',
    ],
)
def test_however_json_is_laid_out_its_dependencies_are_read(text: str) -> None:
    assert added("package.json", "", text) == ["evil"]


@pytest.mark.parametrize(
    "text",
    [
        'project.dependencies = ["evil"]\n',
        '["project"]\n"dependencies" = [ # ]\n "evil" ]\n',
        '[project]\ndependencies = [\n"evil"\n]\n',
        'tool.poetry.dependencies.evil = "*"\n',
        '[tool.poetry]\ndependencies = { evil = "*" }\n',
        '[tool.poetry]\ndependencies."evil" = "*"\n',
    ],
)
def test_however_toml_is_laid_out_its_dependencies_are_read(text: str) -> None:
    assert added("pyproject.toml", "", text) == ["evil"]


def test_where_the_hunk_does_not_show_the_section_that_is_said() -> None:
    lines = [f'    "a{number}": "^1.0.0",' for number in range(9)]
    before = '{\n  "dependencies": {\n' + "\n".join(lines) + '\n    "z": "1.0.0"\n  }\n}\n'
    after = before.replace('    "a5"', '    "new-one": "^2.0.0",\n    "a5"')
    (found,) = scan(submission({"package.json": (before, after)}))
    assert (found.rule, found.severity) == ("new_dependency", LOW)
    assert "does not show in which section" in found.explanation
    assert (found.line, found.quote) == (8, '"new-one": "^2.0.0",')


def test_the_list_that_git_names_behind_the_hunk_is_the_section() -> None:
    view = View((Line("+", None, 40, '  "evil",'), Line(" ", 40, 41, "]")), hint="dependencies = [")
    kind = format_of("pyproject.toml")
    assert kind is not None
    (entry,) = kind.read(view)
    assert isinstance(entry, Entry)
    assert (entry.name, entry.group) == ("evil", "runtime")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[build-system]\nrequires = ["evil"]\n'),
        ("setup.py", "setup(setup_requires=['evil'])\n"),
        ("setup.cfg", "[options]\nsetup_requires = evil\n"),
        ("Cargo.toml", '[build-dependencies]\nevil = "1"\n'),
    ],
)
def test_what_is_run_while_building_weighs_more(path: str, text: str) -> None:
    assert told(path, "", text) == [("new_at_build", "med")]


def test_a_package_with_an_install_script_weighs_more() -> None:
    scripted = (
        PACKAGE_LOCK.replace("3.22.4", "3.23.0")
        .replace("aaaa", "bbbb")
        .replace('"MIT"', '"MIT",\n "hasInstallScript": true')
    )
    assert ("install_script", "med") in told("package-lock.json", PACKAGE_LOCK, scripted)  # fmt: skip


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
    assert [(one.rule, one.severity) for one in scan(submission(alone))] == [("lock_alone", MED)]
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
    for one in scan(submission({"package.json": ("", text)})):
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


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.names)
@pytest.mark.parametrize(
    "text", ["[" * 20_000, '"' * 20_000, '\\"' * 10_000, "a" * 20_000, "{[" * 9_000, "a-" * 9_000 + "!"]
)
def test_a_line_made_to_be_slow_is_read_at_once(kind: Format, text: str) -> None:
    view = View((Line("+", None, 1, text), Line("+", None, 2, text)), hint=text)
    list(kind.read(view))
