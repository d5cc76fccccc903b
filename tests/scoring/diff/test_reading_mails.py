"""The heads of mails: author, address, subject and message as `git mailinfo` prints them."""

import subprocess
from pathlib import Path

import pytest

from scoring.diff.change import Mail
from scoring.diff.parser import read_change
from tests.scoring.diff.hidden_mails import behind, ways
from tests.scoring.diff.patches import FROM, SIGNATURE, SUM, counts, mail, one_line

LONG = "Bring every account's records in order, however long the sentence about it may become in the end"


def assert_told(rule: str, text: str) -> None:
    """A text is told of by this rule alone, and was not read whole."""
    change = read_change(text)
    assert [problem.rule for problem in change.problems] == [rule]
    assert change.coverage < 1


def by_git(text: str, folder: Path) -> Mail:
    """What git makes of one mail, without its "From " line as `git mailsplit` hands it on."""
    command = ["git", "mailinfo", "--encoding=UTF-8", "message", "patch"]
    data = text.encode()
    printed = subprocess.run(command, input=data, cwd=folder, capture_output=True, check=True).stdout.decode()
    told = {name: value.strip() for name, _, value in (line.partition(":") for line in printed.splitlines())}
    message = (folder / "message").read_text().strip("\n")
    return Mail(told.get("Author", ""), told.get("Email", ""), told.get("Date", ""), told.get("Subject", ""), message)


@pytest.mark.parametrize(
    "text",
    [
        mail(),
        mail(subject="[PATCH 02/10] Count"),
        mail(subject="[PATCH v3 2/3][RFC] Re: count: all of it"),
        mail(subject="Re: [PATCH] RE: count"),
        mail(subject="[PATCH]"),
        mail(subject=f"[PATCH] {LONG[:60]}\n {LONG[60:]}"),
        mail(subject="[PATCH] =?UTF-8?q?Z=C3=A4hle=20alles=20mit,?=\n =?UTF-8?q?=20auch=20das=20erste?="),
        mail(subject="[PATCH] =?utf-8?Q?Gr=C3=BC=C3=9Fe?= to =?utf-8?b?w7zDvMO8?= all"),
        mail(subject="[PATCH] [not closed"),
        mail(From="=?UTF-8?q?J=C3=BCrgen=20M=C3=BCller?= <jm@example.test>"),
        mail(From='"Doe, Jane" <jane@example.test>'),
        mail(From="jane@example.test (Jane Doe)"),
        mail(From="jane@example.test"),
        mail(From="Jane @home <jane@example.test>"),
        mail(From="Jane Doe <jane>"),
        mail(From=f"{LONG} <jane@example.test>"),
        mail(body="From: Real Author <real@example.test>\n\nWhat it does.\n\nAnd why.\n"),
        mail(body="Subject: Another\nDate: Tue, 14 Nov 2017 00:00:00 +0900\n\nWhat it does.\n"),
        mail(body="What it does.\nFrom: no header <any@more.test>\n\nSigned-off-by: Ana <ana@example.test>\n"),
        mail(
            MIME_Version="1.0", Content_Type="text/plain; charset=UTF-8", Content_Transfer_Encoding="8bit", body="ü\n"
        ),
        mail(Message_ID="<x@y>", In_Reply_To="<z@y>", X_Other="x"),
    ],
)
def test_the_head_of_a_mail_is_what_git_prints(text: str, tmp_path: Path) -> None:
    change = read_change(text)
    assert change.mails == (by_git(text, tmp_path),)
    assert counts(change.files) == [("sum.py", 2, 1)]


def test_a_series_has_its_mails_in_order_and_a_plain_diff_has_none() -> None:
    change = read_change(mail(subject="[PATCH 1/2] First") + mail(subject="[PATCH 2/2] Second"))
    assert [told.subject for told in change.mails] == ["First", "Second"]
    assert read_change(SUM).mails == ()


def test_a_cover_letter_changes_no_file_and_is_read() -> None:
    letter = (
        f"{FROM}From: Ana <ana@example.test>\nSubject: [PATCH 0/1] Why\n\nBecause.\n\nAna (1):\n  Count\n\n-- \n2.4\n\n"
    )
    change = read_change(letter + mail())
    assert ([told.subject for told in change.mails], change.problems) == (["Why", "Count the first item too"], ())


def test_a_mail_without_its_from_line_is_a_mail() -> None:
    assert read_change(mail().removeprefix(FROM)).mails == read_change(mail()).mails


def test_a_from_line_inside_a_hunk_begins_no_mail() -> None:
    hunk = f"--- a/x\n+++ b/x\n@@ -0,0 +1,2 @@\n+{FROM}+b\n"
    assert len(read_change(mail(hunk)).mails) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Transfer_Encoding": "base64"},
        {"Content_Transfer_Encoding": "Quoted-Printable"},
        {"Content_Type": 'multipart/mixed; boundary="x"'},
    ],
)
def test_a_mail_that_git_would_decode_first_is_a_finding(headers: dict[str, str]) -> None:
    assert_told("encoded_mail", mail("ZGlmZiAtLWdpdA==\n", **headers) + mail())


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?q?",
        "=?nonsense?q?=41?=",
        "=?utf-8?b?=?=",
        "=?\0?q?a?=",
        "=?a?q?" * 2_000,
        "[" * 9_000,
        "re:" * 3_000,
        "",
    ],
)
def test_no_header_makes_reading_raise(subject: str) -> None:
    change = read_change(mail(subject=subject, From=subject, Date=subject))
    assert counts(change.files) == [("sum.py", 2, 1)]
    assert len(change.mails) == 1


@pytest.mark.parametrize("way", ways())
def test_a_mail_hidden_behind_a_harmless_patch_is_told_with_its_line(way: str) -> None:
    change = read_change(behind(SUM, way))
    assert change.coverage < 1
    (problem,) = change.problems
    assert problem.rule == "encoded_mail"
    line = int(problem.explanation.rpartition(" line ")[2].split()[0])
    assert behind(SUM, way).split("\n")[line - 1] == problem.quote


@pytest.mark.parametrize(
    "text",
    [
        mail(Content_Type="text/plain; charset=utf-16"),
        mail(Content_Type="text/plain; format=flowed"),
        mail(Content_Type="text/plain; charset=UTF-8; boundary=x"),
        mail(Content_Type="text/plain\n ; charset=utf-7"),
        mail(Content_Transfer_Encoding="8bit\nContent-Transfer-Encoding: x-base64"),
        mail(X="y\n\tfolded\nContent-Transfer-Encoding: base64"),
    ],
)
def test_every_header_counts_that_may_make_git_decode_a_mail(text: str) -> None:
    assert_told("encoded_mail", text)


@pytest.mark.parametrize(
    "text",
    [
        mail(Content_Type='text/plain; charset="UTF-8"', Content_Transfer_Encoding="8bit", body="Grüße\n"),
        mail(Content_Type="TEXT/PLAIN; charset=iso-8859-15", Content_Transfer_Encoding="7BIT"),
        mail(body="Content-Transfer-Encoding: base64\nContent-Type: text/html\n"),
        mail(X="y\n Content-Transfer-Encoding: base64"),
        mail() + "base-commit: " + "0" * 40 + "\n",
        mail().removesuffix(SIGNATURE) + "-- \nAna Example\nhttps://example.test\n\n" + mail(one_line("y")),
        mail().removesuffix(SIGNATURE) + f"Index: y\n{'=' * 60}\n{one_line('y')}",
    ],
)
def test_headers_words_and_trailers_of_honest_mails_cost_nothing(text: str) -> None:
    change = read_change(text)
    assert (change.coverage, change.problems) == (1, ())


@pytest.mark.parametrize("text", ["words\n", "-- \n" + "a line\n" * 5, "From x\nContent-Transfer-Encoding: base64\n"])
def test_text_behind_a_patch_that_is_not_understood_costs_coverage(text: str) -> None:
    assert_told("text_behind", mail().removesuffix(SIGNATURE) + text)


@pytest.mark.parametrize(
    "head",
    [
        "# HG changeset patch\n# User Ana\n\n",
        "\n# This series applies on GIT commit 123\n",
        "Mend it\n\nFrom: Ana <ana@example.test>\n\n",
    ],
)
def test_a_patch_that_git_takes_for_another_tools_is_not_fully_read(head: str) -> None:
    assert_told("other_format", head + SUM)


def test_lines_that_git_joins_to_one_are_told() -> None:
    joined = SUM.replace("+        check(item)\n", "+        check(\n\\ No newline at end of file\n+item)\n")
    change = read_change(joined.replace("+10,4", "+10,5"))
    assert [problem.rule for problem in change.problems][:1] == ["joined_lines"]
    assert change.coverage < 1
