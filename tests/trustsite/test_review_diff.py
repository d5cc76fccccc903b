"""`manage.py review_diff` as it is typed: any patch, no drive, one sentence where something is wrong."""

import gzip
import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tests.conftest import Manage, with_environment
from tests.sources import PROJECT
from trustsite.standins.claude import KEY, ClaudeStandIn

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


def test_it_reads_a_patch_without_a_drive_and_writes_nothing(manage: Manage, patch: Path, tmp_path: Path) -> None:
    result = manage("review_diff", patch, "--json", DATA_ROOT=None, HOME=tmp_path / "home")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert set(told) == KEYS
    assert told["reviewer"] == "deterministic"
    first = told["findings"][0]
    assert (first["scanner"], first["file"], first["line"]) == ("secrets", "a.py", 2)
    assert TOKEN[-10:] not in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leak.patch"]


def test_standard_input_is_read_too() -> None:
    command = [sys.executable, str(PROJECT / "manage.py"), "review_diff", "-", "--json"]
    done = subprocess.run(
        command, input=gzip.compress(CLEAN.encode()), env=with_environment({}), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content_risk"] < 0.1


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
    assert "Read by deterministic: 100 % of the changed lines." in told


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
