"""`manage.py review_diff` as it is typed: any patch, no drive, one sentence where something is wrong."""

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.diff.parser import DEFAULT_LIMITS, Limits, read_bytes
from scoring.review import by_hand
from scoring.review.by_hand import SentPatch, review_patch
from scoring.scanners.submission import Knowledge
from tests.conftest import PROVE, count, with_environment
from tests.growth import in_linear_time
from tests.sources import PROJECT
from tests.standins.claude import KEY, ClaudeStandIn
from tests.waiting import LONG_SECONDS, ends_by_itself

CLEAN = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n print(1)\n+print(2)\n"
TOKEN = "https://hooks.slack." + "com/services/T02GW5K8R/B05MXPL2Q7/kQ3vZr8WbNtY6cLmH1xJp4Sd"
LEAK = CLEAN.replace("+print(2)", f'+url = "{TOKEN}"')
KEYS = {"content_risk", "flags", "summary", "review_recommended", "findings", "coverage", "reviewer"}


@pytest.fixture(name="patch")
def patch_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "leak.patch"
    path.write_text(LEAK)
    return path


def call(*arguments: object) -> str:
    out = StringIO()
    call_command("review_diff", *map(str, arguments), stdout=out)
    return out.getvalue()


def test_it_reads_a_patch_and_standard_input_without_a_drive_and_writes_nothing(patch: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(PROJECT / "manage.py"), "review_diff", str(patch), "-", "--json"]
    done = subprocess.run(
        command,
        input=gzip.compress(CLEAN.encode()),
        env=with_environment({"DATA_ROOT": None, "HOME": tmp_path / "home"}),
        capture_output=True,
        timeout=LONG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    told, clean = map(json.loads, done.stdout.splitlines())
    assert set(told) == KEYS
    assert told["reviewer"] == "deterministic"
    first = told["findings"][0]
    assert (first["scanner"], first["file"], first["line"]) == ("secrets", "a.py", 2)
    assert TOKEN[-10:].encode() not in done.stdout
    assert clean["content_risk"] < 0.1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leak.patch"]


def test_several_files_are_an_object_a_line(patch: Path, tmp_path: Path) -> None:
    other = tmp_path / "clean.patch"
    other.write_text(CLEAN)
    risks = [json.loads(line)["content_risk"] for line in call(patch, other, "--json").splitlines()]
    assert len(risks) == 2
    assert risks[0] >= 0.8
    assert risks[1] < 0.1


def test_a_person_reads_what_was_found_where_and_by_whom(patch: Path) -> None:
    told = call(patch)
    assert "a person should read it" in told
    assert "HIGH a.py:2" in told
    assert "Read by the deterministic reviewer: 100 % of the changed lines." in told


def test_nothing_of_the_change_moves_the_cursor_of_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.patch"
    path.write_text(LEAK.replace("a.py", "a\x1b[2J\u202e.py"))
    told = call(path)
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_what_is_no_patch_is_a_finding_and_no_clean_review(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\x00\xff not a patch")
    told = json.loads(call(path, "--json"))
    assert told["review_recommended"]
    assert told["coverage"] == 0


def test_a_file_that_is_not_there_is_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nothing\.patch cannot be read: No such file"):
        call(tmp_path / "nothing.patch")


def test_claude_reads_it_where_it_is_asked_to_and_only_then(settings: Settings, patch: Path) -> None:
    with pytest.raises(CommandError, match="--claude needs ANTHROPIC_API_KEY"):
        call(patch, "--claude")
    with ClaudeStandIn() as claude:
        settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = KEY, claude.base_url
        call(patch)
        assert claude.requests == []
        told = json.loads(call(patch, "--claude", "--json"))
        assert claude.requests
    assert told["reviewer"].startswith("claude-")
    assert told["content_risk"] >= 0.8, "what the scanners found stands"


def test_logs_of_other_tools_and_rules_of_the_operator_are_heeded(tmp_path: Path) -> None:
    path, rules = tmp_path / "x.patch", tmp_path / "rules.toml"
    path.write_text(CLEAN)
    rules.write_text("[[rules]]\nid = \"two\"\ndescription = \"A two.\"\nregex = '''print\\((2)\\)'''\n")
    found = json.loads(call(path, "--secret-rules", rules, "--json"))["findings"]
    assert [one["line"] for one in found if one["scanner"] == "secrets"] == [2]


def test_a_budget_that_is_spent_is_said_in_words_and_beside_json(settings: Settings, patch: Path) -> None:
    with ClaudeStandIn() as claude:
        settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = KEY, claude.base_url
        settings.REVIEW_DOLLARS_A_DAY = 0.0
        assert "(no content verdict: the day's budget for reviews on this site is spent)" in call(patch, "--claude")
        out, err = StringIO(), StringIO()
        call_command("review_diff", str(patch), "--claude", "--json", stdout=out, stderr=err)
        assert claude.messages == []
    told = json.loads(out.getvalue())
    assert (set(told), told["reviewer"], told["review_recommended"]) == (KEYS, "deterministic", True)
    assert "leak.patch: no content verdict: the day's budget for reviews on this site is spent." in err.getvalue()


def a_patch(files: int, lines: int, text: str = "    value_{0} = compute({0}, name='pear')", suffix: str = "py") -> str:
    """So many files that gain so many lines each."""
    added = "".join(f"+{text.format(number)}\n" for number in range(lines))
    return "".join(
        f"diff --git a/m{name}.{suffix} b/m{name}.{suffix}\n--- a/m{name}.{suffix}\n+++ b/m{name}.{suffix}\n"
        f"@@ -1,0 +1,{lines} @@\n{added}"
        for name in range(files)
    )


def processor_seconds(path: Path) -> float:
    """CPU seconds of the whole command as a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(PROJECT / "manage.py"), "review_diff", str(path), "--json"]
    subprocess.run(command, env=with_environment({}), capture_output=True, timeout=LONG_SECONDS, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(("files", "lines", "seconds"), [(4, 50, 1.5), *([(100, 200, 5.0)] if PROVE else [])])
def test_a_review_with_its_start_takes_no_longer_than_promised(
    tmp_path: Path, files: int, lines: int, seconds: float
) -> None:
    """Four times as long may pass but under PROVE=1: whatever starts with a heavy library takes longer than that."""
    path = tmp_path / "x.patch"
    path.write_text(a_patch(files, lines))
    assert any(processor_seconds(path) < seconds * (1 if PROVE else 4) for _ in range(5))


def test_a_review_takes_time_in_line_with_the_files() -> None:
    def review(artefact: SentPatch) -> object:
        return review_patch(artefact, Knowledge())

    in_linear_time(review, lambda size: SentPatch(a_patch(size, count(50, 200)).encode()), count(40, 100), 4.0)


# Beyond what is read, in bytes, files or lines; a fiftieth of it but under PROVE=1, where reading it all takes 15 s.
LIMITS = DEFAULT_LIMITS if PROVE else Limits(size=100_000, files=40, lines=2_000)
LARGER = count(2, 20)  # times what is read


def bomb() -> bytes:
    packed = gzip.compress(b"+" + b"a" * 1_048_575, 9)
    return gzip.compress(CLEAN.encode()) + packed * count(10, 2_000)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (bomb, "larger"),
        (lambda: (CLEAN + "+" + "a" * LARGER * LIMITS.size).encode(), "larger"),
        (lambda: a_patch(1, 1).encode() * LARGER * LIMITS.files, "more files"),
        (lambda: a_patch(LARGER * LIMITS.files, 1).encode(), "more files"),
        (lambda: a_patch(1, LIMITS.lines + 1_000, "x").encode(), "more lines"),
        (lambda: a_patch(1, 2, "x = '" + "(" * 3 * LIMITS.line_length).encode(), "A line is longer"),
    ],
    ids=["gzip bomb", "one long line", "a file many times", "many files", "many lines", "a cut line"],
)
def test_what_is_too_much_is_cut_off_with_a_finding_and_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], bytes], rule: str
) -> None:
    monkeypatch.setattr(by_hand, "DEFAULT_LIMITS", LIMITS)
    monkeypatch.setattr(by_hand, "read_bytes", partial(read_bytes, limits=LIMITS))
    path = tmp_path / "x.patch"
    path.write_bytes(make())
    with ends_by_itself():
        told = json.loads(call(path, "--json"))
    assert any(rule in one["explanation"] and one["severity"] == "med" for one in told["findings"])
    assert (told["review_recommended"], told["coverage"] < 1, told["content_risk"] >= 0.4) == (True, True, True)
