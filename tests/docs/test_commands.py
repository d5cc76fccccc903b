"""Commands in the pages: each is run by a test or says what it needs, and each takes the options that it is given."""

import re

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

from tests.docs.pages import PAGES, Line, block_below, commands, lines_of, mentions, text_of, words_of_tests
from tests.sources import PROJECT
from triage.models import Person

# Sections whose commands tests/docs/test_walk.py runs word for word.
WALKED = (
    ("docs/operate.md", "Your own box in five commands"),
    ("docs/deploy.md", "Upgrade"),
    ("docs/deploy.md", "Rollback"),
)
_DID = re.compile(r"did:(?:plc:[a-z2-7]{24}|web:(?!.*example))")
_PLACEHOLDER = re.compile(r"\b(?:YOUR|THEIR)_(?:HANDLE|DID)\b")
# Other lines that a test plays, with the test.
PLAYED = {'git -C ../your-clone am --keep-cr "$PWD"/approved/*.mbox': "tests/ingest/git/test_landings.py"}


def walked() -> set[str]:
    return {line.command for page, heading in WALKED for line in lines_of(block_below(page, heading), page)}


def recipe(target: str) -> str:
    """What make runs for a target."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)*)", text_of("Makefile"), re.MULTILINE)
    assert found is not None, f"the Makefile has no target {target}"
    return found[1]


def is_made(target: str) -> bool:
    """Whether .ci/run makes it, or a test runs the management command behind it."""
    if re.search(rf"\bmake {target}\b", text_of(".ci/run")):
        return True
    behind = set(re.findall(r"manage\.py ([a-z_]+)", recipe(target)))
    return bool(behind) and behind <= words_of_tests()


def is_run(line: Line) -> bool:
    if line.command in walked() or line.command in PLAYED:
        return True
    given, target = line.manage(), line.make()
    return given[0] in words_of_tests() if given else target is not None and is_made(target)


def test_the_pages_hold_commands() -> None:
    assert len(commands()) > 40


def test_every_command_is_run_by_a_test_or_says_what_it_needs() -> None:
    """What fails here wants a test, or words behind a # that it needs the network, a person, systemd or time."""
    unrun = [f"{line.page}: {line.command}" for line in commands() if not line.is_marked and not is_run(line)]
    assert unrun == []


def test_every_management_command_takes_what_it_is_given() -> None:
    for line in commands():
        if given := line.manage():
            name, *arguments = given
            try:
                load_command_class(get_commands()[name], name).create_parser("manage.py", name).parse_args(arguments)
            except CommandError as problem:
                pytest.fail(f"{line.page}: {line.command}: {problem}")


def test_no_page_holds_a_did_that_somebody_might_own() -> None:
    """A command is pasted as it is, and would make a stranger admin."""
    assert {page.name: _DID.findall(page.read_text()) for page in PAGES if _DID.search(page.read_text())} == {}


@pytest.mark.django_db
def test_a_command_that_is_pasted_with_its_placeholder_is_refused_in_a_sentence() -> None:
    refused = r"_HANDLE' is not a handle|YOUR_DID has no account here|No watched repository is called 'OWNER/NAME'"
    pasted = [line for line in commands() if _PLACEHOLDER.search(line.command)]
    assert len(pasted) >= 5
    for line in pasted:
        if given := line.manage():
            with pytest.raises(CommandError, match=refused):
                call_command(*given)
            assert not Person.objects.exists()


def test_every_option_that_is_spoken_of_exists() -> None:
    wrong = []
    for page, name, options in mentions():
        if name not in get_commands():
            wrong.append(f"{page}: manage.py {name}")
            continue
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        known = {one for action in parser._actions for one in action.option_strings}
        wrong += [f"{page}: manage.py {name} {option}" for option in options if option not in known]
    assert wrong == []


def test_every_make_target_that_is_spoken_of_exists() -> None:
    for line in commands():
        if target := line.make():
            recipe(target)


def test_what_plays_a_command_exists() -> None:
    assert set(PLAYED) <= {line.command for line in commands()}
    assert all((PROJECT / test).exists() for test in PLAYED.values())
