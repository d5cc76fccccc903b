"""Everything that the docs name exists: files, links, settings, tests, and figures that are called measured."""

import re

from tests.docs.pages import PAGES, name, rows_below, spans, text_of
from tests.sources import PROJECT, environment_names

FOLDERS = "docs|ingest|requirements|scoring|static|templates|tests|triage|trustsite"
# Names in capitals that are no settings of ours.
OTHERS = {"FILE", "NAME", "SCANNER"}
README_LINES, PICTURE_BYTES = 150, 150_000


def test_every_file_link_and_setting_that_a_page_names_exists() -> None:
    settings = environment_names() | OTHERS
    for page in PAGES:
        text = page.read_text()
        files = {one for one in spans(text) if re.fullmatch(rf"(?:{FOLDERS})/[\w./]*", one)}
        assert sorted(one for one in files if not (PROJECT / one).exists()) == [], page
        links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
        assert [link for link in links if not (page.parent / link).exists()] == [], page
        named = {one.split("=")[0] for one in spans(text) if re.fullmatch(r"[A-Z][A-Z_]+(=.*)?", one)}
        assert named - settings == set(), page


def test_the_readme_is_short_and_shows_the_queue() -> None:
    text = text_of("README.md")
    assert len(text.splitlines()) < README_LINES
    assert "](docs/queue.png)" in text
    assert (PROJECT / "docs" / "queue.png").stat().st_size < PICTURE_BYTES


def test_the_readme_leads_to_every_page() -> None:
    text = text_of("README.md")
    assert [page for page in map(name, PAGES[1:]) if f"]({page})" not in text] == []


def test_each_of_the_nine_rules_names_the_tests_that_play_its_attack() -> None:
    section = text_of("docs/threat-model.md").split("## Nine rules", 1)[1].split("\n## ", 1)[0]
    rules = re.split(r"^\d\. ", section, flags=re.MULTILINE)[1:]
    assert len(rules) == 9
    for rule in rules:
        assert [one for one in spans(rule) if one.startswith("tests/")], rule[:60]


def test_each_attack_of_the_threat_model_names_a_test() -> None:
    for row in rows_below("docs/threat-model.md", "The rest of the ground"):
        named = spans(row[-1])
        assert named, row[0]
        assert all(re.fullmatch(r"tests/[\w/]+\.py", one) and (PROJECT / one).exists() for one in named), row[0]


def test_each_kind_of_addition_names_files_and_a_test_that_exist() -> None:
    rows = rows_below("docs/extend.md", "Extending Sunstead")
    assert len(rows) > 10
    for addition, touched, *_ in rows:
        assert [one for one in spans(touched) if (PROJECT / one).exists()], addition


def test_the_figures_of_the_sizing_table_are_measured_ones() -> None:
    measured = text_of("docs/measurements.md")
    rows = rows_below("docs/deploy.md", "How large a machine")
    figures = {one for row in rows for one in re.findall(r"(?<!\w)[.\d][\d.,]*\d|\d", row[1])}
    assert len(figures) > 15
    assert sorted(one for one in figures if one not in measured) == []
