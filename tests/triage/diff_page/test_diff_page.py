"""Any change on a page: every line within bounds, and no text but as text."""

import gzip
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.template.loader import render_to_string
from msgspec.structs import replace

from ingest.git.patch import read_patch
from scoring.diff.change import Line
from scoring.diff.parser import read_change
from scoring.queries.read import ContentReview, ShownFinding, ShownFlag
from tests.conftest import PROVE, Count
from tests.scoring.diff.patches import SUM, mail, one_line
from tests.triage.worlds.hostile_patches import PATCHES
from triage.diff_page.page import DiffPage, Dismissals, change_page, comparison_page, quoted_lines
from triage.diff_page.rows import FOLDED, HTML, How, Room, file_views, masks, shown
from triage.presenters.queue.review import review_notes, review_view

SECRET = "token = 'ghp_0123456789abcdefghij'"
HIDDEN = re.compile("[\u0000-\u0008\u000b-\u001f\u200b-\u200c\u202a-\u202e\u2066-\u2069\ufeff\u00ad\ue000]")


def review(*findings: ShownFinding, flags: tuple[ShownFlag, ...] = ()) -> ContentReview:
    return ContentReview(0.8, True, 1.0, True, None, "deterministic", "no_key", "Told.", flags, findings, 0.0)


def finding(file: str | None, line: int | None, removed: bool = False, severity: str = "high") -> ShownFinding:
    assert severity in ("high", "med", "low")
    return ShownFinding("secrets", "token", "secret_leak", severity, "A token.", file, line, removed, "token = '***'")


def page_of(text: str, found: ContentReview | None = None, **options: bool | int) -> DiffPage:
    return change_page(text, found, bool(options.get("masked")), bool(options.get("sealed")), options.get("only", 0))


def html_of(page: DiffPage) -> str:
    """The part of the page that shows the change, as the template renders it."""
    context = {"page": page, "subject": {"uri": "at://x/y/z"}, "query": {"file": 0, "notes": ()}, "whole": "/diff/x"}
    return render_to_string("diff/_diff.html", context)


class Reader(HTMLParser):
    """Tags with their attributes, ids, and the text of the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]


def read_html(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def cells(rows: str) -> list[list[str]]:
    """The text of every cell, row by row."""
    bare = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", rows)]
    return [bare[place : place + 4] for place in range(1, len(bare), 4)]


def test_a_line_stands_with_its_numbers_its_mark_and_its_colours() -> None:
    (file,) = page_of(SUM).files
    assert cells(file.rows) == [
        ["10", "10", "", "    result = 0"],
        ["11", "", "\N{MINUS SIGN}", "    for item in items[1:]:"],
        ["", "11", "+", "    for item in items:"],
        ["", "12", "+", "        check(item)"],
        ["12", "13", "", "        result += item"],
    ]
    assert '<span class="k">for</span>' in file.rows
    assert '<tr class="minus"><td>11</td>' in file.rows
    assert (file.path, file.added, file.removed, file.rest, file.folded) == ("sum.py", 2, 1, 0, False)


@pytest.mark.parametrize("name", PATCHES)
def test_a_hostile_patch_is_only_text(name: str) -> None:
    html = html_of(page_of(PATCHES[name]))
    page = read_html(html)
    assert not {"script", "img", "b", "i", "textarea", "title", "iframe"} & set(page.tags)
    assert not [one for one in page.names if one.startswith("on") or one == "style"]
    assert len(page.ids) == len(set(page.ids))
    assert not HIDDEN.search(html)
    assert len(html.encode()) < HTML + 100_000


def test_sixty_kinds_of_hostile_patches_are_tried() -> None:
    assert len(PATCHES) == 60


def test_real_patches_are_shown_whole_or_say_what_is_not(shared: Path, count: Count) -> None:
    blobs = pq.read_table(shared / "data/replay/blobs.parquet", columns=["data"]).column("data")
    chosen = blobs.take(list(range(0, len(blobs), len(blobs) // count(200, len(blobs))))).to_pylist()
    for number, blob in enumerate(chosen):
        text = gzip.decompress(blob).decode("utf-8", "replace")
        page, patch = page_of(text), read_patch(blob, 10_000_000)
        sizes = [len(file.rows.encode()) for file in page.files]
        assert sum(sizes) <= HTML
        assert (sum(file.added for file in page.files), sum(file.removed for file in page.files)) == (
            patch.added,
            patch.removed,
        )
        assert bool(page.rest) == any(file.rest for file in page.files)
        if number % 4 and not PROVE:
            continue
        told = [cell[3] for file in page.files if not file.rest for cell in cells_of_lines(file.rows)]
        lines = [line for file in read_change(text).files for hunk in file.hunks for line in hunk.lines]
        assert page.rest or told == [expected(line) for line in lines]


def cells_of_lines(rows: str) -> list[list[str]]:
    return [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", row)]
        for row in re.findall(r'<tr class="(?:plus|minus|)">(.*?)</tr>', rows, re.S)
    ]


def expected(line: Line) -> str:
    cut = shown(line.text[:1000]) + (f" {len(line.text) - 1000:,} more characters" if len(line.text) > 1000 else "")
    return cut + (" no line end" if line.ends_file else "")


def lines_added(path: str, number: int) -> str:
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{number} @@\n" + "+value = 1\n" * number
    )


def test_a_huge_change_is_cut_at_its_bound_and_says_how_much_is_left() -> None:
    page = page_of(lines_added("x.py", 20_000) + lines_added("y.py", 3_000))
    shown_lines = sum(file.lines - file.rest for file in page.files)
    assert 0 < shown_lines < 20_000
    assert page.rest == f"The rest is not shown: {23_000 - shown_lines:,} lines in 2 files."
    assert sum(len(file.rows.encode()) for file in page.files) <= HTML


def test_a_small_file_is_shown_though_a_huge_one_stands_before_it() -> None:
    huge, small = page_of(lines_added("lock.json", 20_000) + lines_added("x.py", 3)).files
    assert (huge.folded, small.folded, small.rest) == (True, False, 0)
    assert huge.rest > 0


def test_a_file_beyond_the_bound_is_shown_alone_at_its_own_address() -> None:
    page = page_of(lines_added("a.json", 9_000) + lines_added("b.json", 400) + lines_added("c.json", 3_000), only=3)
    assert [(file.path, file.rest, file.folded) for file in page.files] == [("c.json", 0, False)]
    assert page.rest == ""


def test_of_very_many_files_a_part_is_listed_and_the_rest_counted() -> None:
    page = page_of("".join(one_line(f"{number}.txt") for number in range(400)))
    assert (len(page.files), page.unnamed) == (300, 100)
    assert page.rest == "The rest is not shown: 200 lines in 100 files."


def test_a_file_without_lines_says_what_changes() -> None:
    header = "diff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from x\nrename to y\n"
    (file,) = page_of(header).files
    assert file.facts == ("renamed from x", "plain before, executable now", "no line changes")
    (file,) = page_of("diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n").files
    assert file.facts == ("binary: no lines to show, and no scanner read it",)
    (file,) = page_of("diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n").files
    assert file.facts == ("deleted",)


def test_a_line_without_an_end_is_marked_where_it_ends() -> None:
    note = "\\ No newline at end of file\n"
    (file,) = page_of(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n{note}+b\n{note}").files
    assert [cell[3] for cell in cells(file.rows)] == ["a no line end", "b no line end"]
    (file,) = page_of(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n{note}").files
    assert [cell[3] for cell in cells(file.rows)] == ["a", "b no line end"]


def test_a_long_line_is_cut_and_says_how_much_is_left() -> None:
    (file,) = page_of(one_line("x.py", "z" * 4_000)).files
    assert cells(file.rows)[1][3] == "z" * 1_000 + " 3,000 more characters"


def test_a_finding_stands_below_its_line_under_the_id_that_the_row_links_to() -> None:
    page = page_of(SUM, review(finding("sum.py", 12), finding("sum.py", 11, removed=True)))
    (file,) = page.files
    for note in page.findings:
        assert file.rows.count(f'<tr id="{note.anchor}" class="told">') == 1
    assert [note.anchor.rpartition("-")[2] for note in page.findings] == ["12", "old11"]
    assert file.rows.index("check") < file.rows.index(page.findings[0].anchor)
    assert file.notes == ()


def test_files_with_findings_come_first_by_their_worst_and_the_others_keep_their_order() -> None:
    text = "".join(one_line(f"{name}.py") for name in "abcde")
    found = review(finding("b.py", 1, severity="low"), finding("e.py", 1, severity="high"), finding("d.py", 1))
    page = page_of(text, found)
    assert [file.path for file in page.files] == ["d.py", "e.py", "b.py", "a.py", "c.py"]
    assert [file.number for file in page.files] == [4, 5, 2, 1, 3], "a file's own address stays"


def test_the_first_finding_of_a_kind_in_a_file_is_told_whole_and_the_others_name_its_line() -> None:
    text = lines_added("x.py", 5) + lines_added("y.py", 2)
    other = replace(finding("x.py", 4), rule="key")
    notes = [finding("x.py", line) for line in (1, 2, 3)] + [other, finding("x.py", 5, severity="low")]
    page = page_of(text, review(*notes, finding("y.py", 2)))
    first, second = (file.rows for file in page.files)
    assert (
        re.findall("<summary>(.*?)</summary>", first)
        == ["<strong>High: Secret in the code</strong>, same as line 1"] * 2
    ), "another rule, or the same one as weaker, is another kind"
    assert first.count("A token.") == 5, "what is folded is there"
    assert "<summary>" not in second, "each file tells its own first one"
    dismissed = {note.digest: "ben: a test key" for note in review_notes(review(*notes), "p")[:2]}
    rows = change_page(text, review(*notes), False, False, 0, Dismissals("p", dismissed)).files[0].rows
    assert rows.count("<summary>") == 1, "a false alarm says so at once"


def test_a_flag_of_a_model_is_found_by_the_words_of_its_place() -> None:
    flags = tuple(
        ShownFlag("subtle_bug", "med", place, "Look.") for place in ("sum.py:11 (removed)", "sum.py", "title")
    )
    page = page_of(SUM, review(flags=flags))
    (file,) = page.files
    assert f'<tr id="{page.findings[0].anchor}" class="told">' in file.rows
    assert [note.place for _, note in file.notes] == ["sum.py"]
    assert [(id_, note.place) for id_, note in page.loose] == [("", "title")]


def test_a_finding_and_the_flag_made_of_it_are_told_once_though_its_link_was_removed() -> None:
    """28 of 29 findings stood twice, once as "(deterministic)" flags in which the link was taken out."""
    said = "It comes from {} which is not the usual registry."
    found = replace(finding("sum.py", 11), explanation=said.format("https://mirror.example/x?y,"))
    same = ShownFlag(found.type, found.severity, "sum.py:11", said.format("(link to mirror.example)"))
    notes = review_notes(review(found, flags=(same, replace(same, location="sum.py:12"))))
    shown = [(note.place, "https" in note.text) for note in notes]
    assert shown == [("sum.py:11", True), ("sum.py:12", False)]


def test_findings_on_lines_that_are_not_shown_stand_at_their_file() -> None:
    page = page_of(
        lines_added("x.py", 20_000), review(finding("x.py", 19_999), finding("x.py", None), finding("no.py", 3))
    )
    (file,) = page.files
    assert [note.place for _, note in file.notes] == ["x.py:19999", "x.py"]
    assert [note.place for _, note in page.loose if note.path] == ["no.py:3"]
    ids = read_html(html_of(page)).ids
    assert {note.anchor for note in page.findings if note.anchor} <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_finding_in_a_series_stands_where_its_line_comes_first() -> None:
    first, second = one_line("x.py"), one_line("x.py").replace("@@ -1 +1 @@", "@@ -7 +7 @@")
    late, early = page_of(mail(first) + mail(second), review(finding("x.py", 7))).files
    assert ("told" in early.rows, "told" in late.rows) == (False, True)


def test_a_file_with_a_finding_gets_room_before_all_others() -> None:
    text = "".join(lines_added(f"{number}.py", 390) for number in range(40)) + lines_added("last.py", 900)
    last = page_of(text, review(finding("last.py", 800))).files[0]
    assert (last.path, last.rest, last.folded) == ("last.py", 0, False)


def test_what_the_audit_keeps_back_is_not_in_the_diff() -> None:
    page = page_of(SUM, review(finding("sum.py", 12)), sealed=True)
    assert (page.findings, page.loose, "told" in page.files[0].rows) == ((), (), False)


def test_a_secret_is_shown_masked_to_who_does_not_maintain_the_repository() -> None:
    text = one_line("x.py", SECRET)
    found = review(finding("x.py", 1))
    assert "ghp_" in page_of(text, found).files[0].rows
    masked = page_of(text, found, masked=True).files[0].rows
    assert "ghp_" not in masked
    assert "***" in masked
    moved = comparison_page(one_line("x.py"), text, False, (None, found), True).files[0].rows
    assert "ghp_" not in moved
    assert "***" in moved
    rebased = text.replace("-a", "-z")
    by_patch = comparison_page(one_line("x.py"), rebased, False, (None, found), True)
    assert "ghp_" not in by_patch.files[0].rows
    assert '<tr class="plus"><td></td><td>1</td><td>+</td><td>+token' in by_patch.files[0].rows
    assert "1 file is compared patch with patch" in by_patch.sentences[1]


def test_two_rounds_are_compared_as_one_plain_diff_of_what_the_file_became() -> None:
    page = comparison_page(SUM, SUM.replace("check(item)", "guard(item)"), False, (None, None), False)
    (file,) = page.files
    assert cells(file.rows)[2:4] == [
        ["12", "", "\N{MINUS SIGN}", "        check(item)"],
        ["", "12", "+", "        guard(item)"],
    ]
    assert "@@ \N{MINUS SIGN}10 +10 @@" in file.rows
    assert page.sentences == ("1 file differs between the two rounds.",)
    assert "first mark" not in html_of(page)


def test_masks_are_of_lines_with_a_secret_alone() -> None:
    change = read_change(SUM)
    assert masks(change, review(finding("sum.py", 12))) == {"        check(item)": "token = '***'"}
    assert masks(change, review(finding(None, None), finding("sum.py", None))) == {}
    assert masks(change, None) == {}


def test_messages_of_a_series_are_shown_without_whom_they_are_from() -> None:
    page = page_of(mail(body="Because <b>.\u202e\n"))
    assert page.messages == ("Count the first item too\n\nBecause <b>.⟨U+202E⟩",)
    assert "ana@example" not in html_of(page)


def test_rows_stop_where_there_is_no_room_and_nothing_is_lost_from_the_count() -> None:
    files = read_change(lines_added("x.py", 50)).files
    for room in range(0, 6_000, 333):
        (view,) = file_views(files, {}, How(), room=Room(html=room))
        assert len(view.rows) <= room
        assert view.lines - view.rest == len(cells_of_lines(view.rows))
    assert FOLDED > 50


def test_a_flag_of_a_model_quotes_the_line_that_it_names_without_its_secret() -> None:
    flags = tuple(
        ShownFlag("subtle_bug", "med", place, "Look.") for place in ("sum.py:12", "sum.py:11 (removed)", "title")
    )
    found = review(finding("sum.py", 12), flags=flags)
    quotes = quoted_lines(read_change(SUM), found)
    assert list(quotes.values()) == ["    for item in items[1:]:", "token = '***'"]
    view = review_view(found, quotes)
    assert view is not None
    assert [(note.severity, note.place, note.quote) for note in view.notes] == [
        ("high", "sum.py:12", "token = '***'"),
        ("medium", "sum.py:12", "token = '***'"),
        ("medium", "sum.py:11 (removed)", "    for item in items[1:]:"),
        ("medium", "title", ""),
    ]
