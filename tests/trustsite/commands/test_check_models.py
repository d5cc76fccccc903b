"""`manage.py check_models` says which configured models can review, without a drive and without a cent."""

from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tests.conftest import Manage
from tests.standins.claude import KEY, ClaudeStandIn
from trustsite import drive


@pytest.fixture(name="claude", scope="module")
def claude_fixture() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn() as claude:
        yield claude


@pytest.fixture(name="ask")
def ask_fixture(claude: ClaudeStandIn, settings: Settings) -> Callable[..., tuple[str, str]]:
    """Runs the command with these settings: what it printed, and what it failed with."""

    def ask(**changes: object) -> tuple[str, str]:
        for name, value in {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": claude.base_url, **changes}.items():
            setattr(settings, name, value)
        out = StringIO()
        try:
            call_command("check_models", stdout=out)
        except CommandError as problem:
            return out.getvalue(), str(problem)
        return out.getvalue(), ""

    return ask


def test_every_configured_model_has_its_line(ask: Callable[..., tuple[str, str]], claude: ClaudeStandIn) -> None:
    told, problem = ask()
    assert problem == ""
    assert told.splitlines() == [
        "claude-sonnet-4-6 (reads): active, 1,000,000 tokens; accepts the request of a review; temperature 0 is sent",
        "claude-opus-4-8 (reads hard cases): active, 1,000,000 tokens; accepts the request of a review; "
        "no temperature is sent",
        "claude-haiku-4-5-20251001 (screens): active, 200,000 tokens; accepts the request of a review; "
        "temperature 0 is sent",
    ]
    assert claude.messages == [], "a message would cost something"


def test_a_model_that_is_gone_fails_and_one_that_retires_says_when(ask: Callable[..., tuple[str, str]]) -> None:
    told, problem = ask(
        CLAUDE_MODEL="claude-sonnet-4-5-20250929", CLAUDE_HARD_MODEL="claude-none", CLAUDE_SCREEN_MODEL=""
    )
    assert "claude-sonnet-4-5-20250929 (reads): deprecated, retires 2026-11-30" in told
    assert "claude-none (reads hard cases): the API answered 404 (not_found_error)" in told
    assert "claude-haiku" not in told
    assert problem == "claude-none cannot review: set other models, or wait."


def test_a_wrong_key_is_said_for_every_model(ask: Callable[..., tuple[str, str]]) -> None:
    told, problem = ask(ANTHROPIC_API_KEY="sk-ant-other")
    assert told.count("the API answered 401 (authentication_error)") == 3
    assert problem


def test_without_a_key_nothing_is_asked_and_no_drive_is_needed(ask: Callable[..., tuple[str, str]]) -> None:
    told, problem = ask(ANTHROPIC_API_KEY="")
    assert told == ""
    assert "ANTHROPIC_API_KEY is not set" in problem
    assert not drive.needs_state(["manage.py", "check_models"])


def test_a_model_without_a_price_is_refused_at_the_start(manage: Manage) -> None:
    done = manage("check_models", CLAUDE_MODEL="claude-sonnet-5-5")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "claude-sonnet-5-5 has no price" in done.stderr
