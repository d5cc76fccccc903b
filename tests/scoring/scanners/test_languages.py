"""Files are told apart by what they are: a program named like prose is code, a template with code is not read."""

import pytest

from scoring.diff.paths import role
from scoring.scanners import dangerous, flipped, licences
from scoring.scanners._rules import rules_for
from scoring.scanners._text import NAMES, Language, language_of
from scoring.scanners._unread_languages import language_without_rules
from tests.scoring.scanners.written import PATH, added_lines, marked_lines, rules_found


@pytest.mark.parametrize("path", ["web/licence.js", "src/license.go", "app/history.py", "lib/readme.rb", "news.php"])
def test_a_program_that_is_named_like_prose_is_code(path: str) -> None:
    assert role(path) == "code"
    assert not licences.is_licence_file(path)


@pytest.mark.parametrize("path", ["LICENSE", "licence.md", "LICENSE-MIT", "copying.txt"])
def test_a_licence_stays_one(path: str) -> None:
    assert licences.is_licence_file(path)


@pytest.mark.parametrize("language", [language for language in NAMES if language != "other"])
def test_every_language_with_names_has_rules_and_an_example_path(language: Language) -> None:
    assert language_of(PATH[language]) == language
    assert len(rules_for(language)) >= 10


@pytest.mark.parametrize(("path", "named"), [("a.vue", "Vue"), ("a.html.erb", "templates with code"), ("a.html", None)])
def test_a_template_that_holds_code_is_not_read_for_all_its_rules(path: str, named: str | None) -> None:
    assert language_without_rules(added_lines("x", path)) == named


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("ROUNDS = 600_000", "ROUNDS = 1_000", {"lowered"}),
        ("const keyLength = 32;", "const keyLength = 8;", {"lowered"}),
        ('$options = ["cost" => 12];', '$options = ["cost" => 4];', {"lowered"}),
        ("iterations := 100000", "iterations := 600000", set()),
        ("const keyLength = 32;", "const keyLength = 24;", set()),
        ("const width = 600;", "const width = 100;", set()),
    ],
)
def test_a_number_that_makes_guessing_dear_may_not_halve(old: str, new: str, found: set[str]) -> None:
    path = "a.php" if "$" in old else "a.go" if ":=" in old else "a.js" if "const" in old else "a.py"
    assert rules_found(flipped.scan, marked_lines(f"-{old}\n+{new}\n", path)) == found


def test_a_comment_is_no_safeguard_that_takes_the_place_of_another() -> None:
    gone = '-app.delete("/pages", requireAdmin, remove);\n+app.delete("/pages", remove);\n'
    assert "middleware-removed" in rules_found(dangerous.scan, marked_lines(gone, "a.js"))
    commented = f"{gone}+// requireAdmin is asked for elsewhere\n"
    assert "middleware-removed" in rules_found(dangerous.scan, marked_lines(commented, "a.js"))
    moved = f"{gone}+app.use(requireAdmin);\n"
    assert "middleware-removed" not in rules_found(dangerous.scan, marked_lines(moved, "a.js"))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("-  if user.admin? || user.editor?\n+  if user.present? || user.editor?\n", {"weaker"}),
        ("-  @page = current_user.pages.find(id)\n+  @page = Page.find(id)\n", {"wider"}),
        ("-  @page = current_user.pages.find(id)\n+  @page = current_user.pages.find(page_id)\n", set()),
        ("-  if user.admin?\n+  if user.admin? || user.owner?\n", set()),
        ("-  return unless valid?\n+  # return unless somebody asks\n", set()),
    ],
)
def test_a_line_that_stays_may_not_ask_for_less_or_look_among_more(lines: str, found: set[str]) -> None:
    assert rules_found(flipped.scan, marked_lines(lines, "src/a.rb")) == found
