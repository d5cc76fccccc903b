"""Approved patches as mails: git applies exactly the approved change, whatever a stranger wrote around it."""

import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.git.patch import patch_id, read_patch
from scoring.diff.mailbox import MailboxProblem, MailSource, write_mailbox
from tests.conftest import count
from tests.scoring.diff.patches import mail, one_line
from tests.waiting import LONG_SECONDS

SOURCE = MailSource("did:plc:" + "m" * 24, "mara.example", "Mend the lamp", datetime(2026, 9, 21, 14))
TEXT = "a\nb\nc\n"
IDENTITY = ("-c", "user.name=Seed", "-c", "user.email=seed@example.test", "-c", "core.autocrlf=false")


def git(folder: Path, *arguments: str, sent: str | None = None) -> str:
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    given_bytes = None if sent is None else sent.encode()
    done = subprocess.run(
        command, input=given_bytes, capture_output=True, env=environment, timeout=LONG_SECONDS, check=False
    )
    assert done.returncode == 0, (arguments, done.stderr.decode(), sent)
    return done.stdout.decode("utf-8", "replace")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A maintainer's clone with one file."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "windows.txt").write_bytes(b"a\r\nb\r\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Begin")
    return tmp_path


def id_of(text: str) -> str:
    found = patch_id(text)
    assert found is not None, text
    return found


def written(text: str) -> str:
    return write_mailbox(text, id_of(text), SOURCE)


def applied(clone: Path, text: str) -> list[str]:
    """The patch-ids of the commits that `git am` makes of it, oldest first; each commit's own change."""
    before = git(clone, "rev-parse", "HEAD").strip()
    (clone.parent / "approved.mbox").write_bytes(text.encode())
    git(clone, "am", "-q", "--keep-cr", str(clone.parent / "approved.mbox"))
    commits = git(clone, "rev-list", "--reverse", f"{before}..HEAD").split()
    shown = [git(clone, "format-patch", "-1", "--stdout", "--full-index", "--binary", commit) for commit in commits]
    return [id_of(one) for one in shown]


HUNK = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+bee\n c\n"
CHANGE = "diff --git a/a.txt b/a.txt\n" + HUNK


def test_a_mail_of_format_patch_is_applied_with_its_author_date_and_message(clone: Path) -> None:
    text = mail(CHANGE, "[PATCH] Mend the lamp", "It was dark.\n\nFixes: nothing\n")
    assert applied(clone, written(text)) == [id_of(text)]
    said = git(clone, "log", "-1", "--format=%an <%ae> %aI%n%B")
    assert (
        said == "Ana <ana@example.test> 2017-11-13T22:06:44+00:00\nMend the lamp\n\nIt was dark.\n\nFixes: nothing\n\n"
    )


def test_a_plain_diff_becomes_a_mail_with_neutral_headers(clone: Path) -> None:
    assert applied(clone, written(CHANGE)) == [id_of(CHANGE)]
    said = git(clone, "log", "-1", "--format=%an <%ae> %aI %s")
    assert said == f"mara.example <did.plc.{'m' * 24}@did.invalid> 2026-09-21T14:00:00+00:00 Mend the lamp\n"


def test_a_diff_without_git_lines_is_applied_as_well(clone: Path) -> None:
    assert applied(clone, written(HUNK))
    assert (clone / "a.txt").read_text() == "a\nbee\nc\n"


def test_a_series_stays_a_series(clone: Path) -> None:
    second = one_line("a.txt").replace("@@ -1 +1 @@\n-a\n+b", "@@ -1,3 +1,3 @@\n-a\n+aye\n bee\n c")
    series = mail(CHANGE, "[PATCH 1/2] One") + mail(second, "[PATCH 2/2] Two")
    read = read_patch(series.encode(), 10**6)
    assert applied(clone, written(series)) == list(read.series)
    assert git(clone, "log", "-2", "--format=%s").split() == ["Two", "One"]


def test_a_cover_letter_is_left_out(clone: Path) -> None:
    cover = mail("", "[PATCH 0/1] All of it", "Dear maintainers\n")
    assert len(applied(clone, written(cover + mail(CHANGE)))) == 1


def test_line_ends_of_windows_are_kept(clone: Path) -> None:
    text = "diff --git a/windows.txt b/windows.txt\n--- a/windows.txt\n+++ b/windows.txt\n"
    text += "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+bee\r\n"
    applied(clone, written(text))
    assert (clone / "windows.txt").read_bytes() == b"a\r\nbee\r\n"


def test_binary_files_renames_and_modes_are_kept(clone: Path) -> None:
    git(clone, "checkout", "-q", "-b", "fork")
    (clone / "picture.bin").write_bytes(bytes(range(256)))
    (clone / "a.txt").rename(clone / "z.txt")
    (clone / "z.txt").chmod(0o755)
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "Picture")
    text = git(clone, "format-patch", "-1", "--stdout", "--full-index", "--binary", "-M")
    git(clone, "checkout", "-q", "main")
    assert applied(clone, written(text)) == [id_of(text)]
    assert (clone / "picture.bin").read_bytes() == bytes(range(256))


EVIL = "diff --git a/evil.txt b/evil.txt\nnew file mode 100644\n--- /dev/null\n+++ b/evil.txt\n@@ -0,0 +1 @@\n+evil\n"
SMUGGLED = {
    "a cut": "-- >8 -- >8 --\nSubject: other\n\n",
    "an author": "From: Seed <seed@example.test>\n\n",
    "a subject": "Subject: [PATCH] Reviewed by seed\n\n",
    "a second author": "From: A <a@example.test>\n\nFrom: Seed <seed@example.test>\n\n",
    "an end of the message": "---\n",
}
MAILS = {
    "a mail": "From mallory Mon Sep 17 00:00:00 2001\nFrom: Ana <ana@example.test>\nSubject: more\n\n",
    "a mail of another date": "From m@example.test Thu Jan  1 00:00:00 2026\nFrom: Ana <a@b.test>\nSubject: more\n\n",
}


@pytest.mark.parametrize("smuggled", SMUGGLED.values(), ids=SMUGGLED)
def test_words_of_a_message_stay_words(clone: Path, smuggled: str) -> None:
    text = mail(CHANGE, body=f"First words.\n\n{smuggled}Last words.\n")
    assert applied(clone, written(text)) == [id_of(CHANGE)]
    assert not (clone / "evil.txt").exists()
    assert git(clone, "log", "-1", "--format=%an %s") == "Ana Count the first item too\n"


@pytest.mark.parametrize("smuggled", MAILS.values(), ids=MAILS)
def test_a_mail_that_begins_within_a_message_is_one_of_its_own_as_for_git(clone: Path, smuggled: str) -> None:
    text = mail(CHANGE, body=f"First words.\n\n{smuggled}Last words.\n")
    assert applied(clone, written(text)) == [id_of(CHANGE)]
    assert git(clone, "log", "-1", "--format=%an %s%n%b") == "Ana more\nLast words.\n\n"


@pytest.mark.parametrize("smuggled", [*SMUGGLED.values(), *MAILS.values()], ids=[*SMUGGLED, *MAILS])
def test_a_change_hidden_behind_such_words_is_applied_as_approved_or_refused(clone: Path, smuggled: str) -> None:
    text = mail(CHANGE, body=f"Words.\n\n{smuggled}{EVIL}\n")
    read = read_patch(text.encode(), 10**6)
    if read.patch_id is None:
        return  # what git would not apply is never approved
    try:
        made = write_mailbox(text, read.patch_id, SOURCE)
    except MailboxProblem:
        return
    applied(clone, made)
    whole = git(clone, "diff", "HEAD~1", "HEAD")
    assert id_of(whole) == read.patch_id


def test_headers_cannot_be_continued_into_others(clone: Path) -> None:
    text = mail(CHANGE, subject="[PATCH] One\n X-Other: two\r", From='"A\n <b@c>" <a@example.test>')
    assert applied(clone, written(text)) == [id_of(CHANGE)]
    hostile = MailSource("did:web:evil.example%0aFrom", "M\nFrom: x <y@z>", "T\n\n---\ndiff --git", SOURCE.opened_at)
    assert applied(
        clone,
        write_mailbox(
            CHANGE.replace("bee", "sea").replace("-b\n", "-bee\n"),
            id_of(CHANGE.replace("bee", "sea").replace("-b\n", "-bee\n")),
            hostile,
        ),
    )
    assert git(clone, "log", "-1", "--format=%s") == "T --- diff --git\n"


def test_what_is_not_the_approved_change_is_refused() -> None:
    with pytest.raises(MailboxProblem, match="not the approved patch"):
        write_mailbox(CHANGE, "0" * 64, SOURCE)


def test_an_encoded_mail_is_refused() -> None:
    text = mail(CHANGE, Content_Transfer_Encoding="base64")
    with pytest.raises(MailboxProblem, match="encoded"):
        written(text)


LINES = """From
From: x
Subject: x
Date: x
diff --git a/x b/x
--- a/x
+++ b/x
@@ -0,0 +1 @@
+evil
---
Index: x
-- >8 --
8<
From mallory Mon Sep 17 00:00:00 2001
>From x
[PATCH]
words

Content-Type: text/html
Content-Transfer-Encoding: base64"""
WORDS = st.sampled_from([*LINES.split("\n"), " ", "\r", "\x00", "\x0c", "\x85", "-- ", "\u2028"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("split")


@settings(max_examples=count(8, 500), suppress_health_check=[HealthCheck.too_slow])
@given(lines=st.lists(st.lists(WORDS, max_size=3).map("".join), max_size=8), subject=st.lists(WORDS, max_size=3))
def test_git_reads_one_mail_with_the_approved_change_whatever_the_words(
    folder: Path, lines: list[str], subject: list[str]
) -> None:
    text = mail(CHANGE, "".join(subject).replace("\r", ""), "\n".join(lines) + "\n")
    read = read_patch(text.encode(), 10**6)
    if read.patch_id is None:
        return
    try:
        made = write_mailbox(text, read.patch_id, SOURCE)
    except MailboxProblem:
        return
    for old in folder.iterdir():
        old.unlink()
    assert git(folder, "mailsplit", "--keep-cr", f"-o{folder}", "--", sent=made) == f"{made.count('sunstead')}\n"
    git(folder, "mailinfo", "--scissors", "message", "patch", sent=(folder / "0001").read_bytes().decode())
    if len(read.series) == 1:
        assert patch_id((folder / "patch").read_text()) == read.patch_id
