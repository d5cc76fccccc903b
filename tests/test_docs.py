"""Docs cannot lie: commands in the pages exist, and the examples of the environment are the settings' own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from django.core.management import get_commands

from tests.docs.pages import PAGES
from tests.sources import PROJECT, environment_names
from trustsite.drive import CACHES

TEXT = "".join(page.read_text() for page in PAGES)
TARGETS = {"setup", "demo", "run", "replay", "test", "prove", "lint", "bench"}
PATHS = {"DATA_ROOT", "DUCKDB_PATH", "PYG_ROOT", "STAGING_DIR", "DIFF_CORPUS_DIR", "MODEL_DIR", "LOG_DIR"}
SHOW = """
import json
from trustsite import settings
keys = ("SECRET_KEY", "AUDIT_KEY", "WEBHOOK_KEY", "PUSH_KEY", "OAUTH_KEY", "TOMBSTONE_KEY")
shown = {name: value for name, value in vars(settings).items() if name.isupper() and name not in keys}
print(json.dumps(shown, default=str))
"""


def make_targets() -> set[str]:
    """The targets that the Makefile defines."""
    return set(re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))


def example_lines() -> dict[str, str]:
    """Name and value of every line of .env.example, commented out or not."""
    lines = re.findall(r"^#?([A-Z][A-Z_]+)=(.*)$", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    assert len(lines) == len(dict(lines)), "a name stands twice in .env.example"
    return dict(lines)


def settings_under(environment: dict[str, str]) -> dict[str, object]:
    """Every setting as a fresh process reads it with nothing but `environment`."""
    command = [sys.executable, "-c", SHOW]
    shown = subprocess.run(
        command, cwd=PROJECT, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, check=True
    )
    return json.loads(shown.stdout)


def test_the_makefile_has_the_promised_targets() -> None:
    assert make_targets() >= TARGETS


def test_every_make_target_in_the_pages_exists() -> None:
    named = set(re.findall(r"(?:^|`|   )make ([a-z]+)", TEXT, re.MULTILINE))
    assert named - make_targets() == set()
    assert named >= {"demo", "test", "run", "replay"}


def test_every_management_command_in_the_pages_exists() -> None:
    named = set(re.findall(r"manage\.py ([a-z_]+)", TEXT))
    assert named - set(get_commands()) == set()
    assert named >= {"init_drive", "add_maintainer"}


def test_every_management_command_in_the_makefile_exists() -> None:
    named = set(re.findall(r"manage\.py ([a-z_]+)", (PROJECT / "Makefile").read_text()))
    assert named - set(get_commands()) == set()


def test_every_file_that_the_pages_name_exists() -> None:
    named = re.findall(r"`([\w.]+/[\w./]*|\.env\S*example)`", TEXT)
    made_later = {".sunstead/", "venv/bin/python"}
    assert [name for name in named if name not in made_later and not (PROJECT / name).exists()] == []


def test_the_env_example_lists_exactly_what_settings_read() -> None:
    assert set(example_lines()) == environment_names()


def test_every_line_of_the_env_example_has_a_comment_above_it() -> None:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"#?[A-Z_]+=", line) and not before.startswith("# ")
    ]
    assert bare == []


def test_the_env_example_shows_the_real_defaults(tmp_path: Path) -> None:
    ground = {"DATA_ROOT": str(tmp_path)}
    written = {name: value.replace("$DATA_ROOT", str(tmp_path)) for name, value in example_lines().items() if value}
    assert settings_under({**written, **ground}) == settings_under(ground)


def test_the_envrc_example_exports_every_path_and_cache_and_agrees_with_the_code(tmp_path: Path) -> None:
    text = (PROJECT / ".envrc.example").read_text()
    assert set(re.findall(r"^export ([A-Z_]+)=", text, re.MULTILINE)) == PATHS | set(CACHES)
    (tmp_path / ".envrc").write_text(text.replace("DATA_ROOT=/srv/sunstead", f"DATA_ROOT={tmp_path}"))
    shell = ["sh", "-euc", '. ./.envrc; "$0" -c "import json, os; print(json.dumps(dict(os.environ)))"', sys.executable]
    shown = subprocess.run(shell, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, check=True)
    exported = json.loads(shown.stdout)
    assert {name: exported[name] for name in CACHES} == {name: str(tmp_path / path) for name, path in CACHES.items()}
    paths = {name: exported[name] for name in PATHS}
    assert settings_under(paths) == settings_under({"DATA_ROOT": str(tmp_path)})


def test_the_envrc_example_loads_the_settings_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".envrc").write_text((PROJECT / ".envrc.example").read_text())
    (tmp_path / ".env").write_text("BIND=127.0.0.1:9000\n")
    shell = ["sh", "-euc", ". ./.envrc; env"]
    shown = subprocess.run(
        shell, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    assert "BIND=127.0.0.1:9000" in shown.stdout.splitlines()
