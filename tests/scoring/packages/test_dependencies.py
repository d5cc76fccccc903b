"""Dependencies that a change adds, moves or takes from elsewhere, in every format that is read."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scoring.diff.change import Line
from scoring.diff.parser import read_change
from scoring.packages import compare
from scoring.packages.compare import format_of
from scoring.packages.entry import Entry, Item, View
from scoring.scanners.dependencies import scan
from scoring.scanners.submission import Submission
from scoring.types import Severity
from tests.scoring.diff.patched import submission
from tests.scoring.packages.manifests import PACKAGE_JSON, PACKAGE_LOCK, added, told

LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH


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
        ("go.work", "go 1.22\n", "go 1.22\n\nrequire github.com/a/b v1.2.3\n", ["github.com/a/b"]),
        ("requirements.lock", "", "idna==3.7\n", ["idna"]),
        ("deno.json", "", '{"imports": {"zod": "npm:zod@3.22.4", "a": "npm:/@a/b@^1/c"}}\n', ["zod", "@a/b"]),
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


BUN = '    "zod": ["zod@3.22.4", "", {}, "sha512-' + "a" * 40 + '"],\n'


@pytest.mark.parametrize(
    ("path", "before", "after", "rules"),
    [
        ("bun.lock", "", BUN, {"new_in_lock"}),
        ("bun.lock", BUN, BUN.replace("a" * 40, "b" * 40), {"hash_changed"}),
        ("pylock.toml", "", '[[packages]]\nname = "idna"\nversion = "3.7"\n', {"new_in_lock"}),
    ],
)
def test_a_lock_file_of_a_newer_tool_is_read(path: str, before: str, after: str, rules: set[str]) -> None:
    assert rules <= {rule for rule, _ in told(path, before, after)}


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


@pytest.mark.parametrize("size", [0, 1, 17, 40, 41, 10_000])
def test_no_more_is_read_of_a_change_than_so_many_characters(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(compare, "CHARACTERS", size)
    read: list[str] = []
    added = "".join(f"+package-{number}==1.0\n" for number in range(20))
    text = "".join(
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,20 @@\n{added}"
        for name in ("requirements.txt", "requirements-dev.txt")
    )

    def reading(view: View) -> Iterator[Item]:
        read.extend(line.text + "\n" for line in view.lines)
        return iter(())

    formats = {name: replace(compare.FORMATS[0], read=reading) for name in ("requirements.txt", "requirements-dev.txt")}
    monkeypatch.setattr(compare, "format_of", formats.get)
    change = read_change(text)
    found = compare.comparisons(change)
    whole = [line.text + "\n" for file in change.files for line in file.added()]
    assert read == whole[: len(read)]
    assert len("".join(read)) <= size
    assert len("".join(whole[: len(read) + 1])) > size or read == whole
    assert [one.cut for one in found] == [len(read) < 20, len(read) < 40]


def test_a_file_that_is_longer_than_what_is_read_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "CHARACTERS", 30)
    text = "diff --git a/go.sum b/go.sum\nnew file mode 100644\n--- /dev/null\n+++ b/go.sum\n@@ -0,0 +1,2 @@\n"
    text += "+example.test/a v1.0.0 h1:aaaa=\n+example.test/b v1.0.0 h1:bbbb=\n"
    (told,) = [one for one in scan(Submission(read_change(text))) if one.rule == "too_many"]
    assert (told.type, told.severity) == ("oversized", Severity.MED)
    assert "the rest was not looked at" in told.explanation
