"""Mailboxes as nobody should send them, each made from one seed: series whose mails git and a reader may tell apart."""

import base64
import hashlib
import quopri
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from random import Random

FILES = {f"f{number}.txt": [f"file {number} line {line}" for line in range(12)] for number in range(6)}
NEVER = "0" * 40
SEPARATORS = (
    f"From {NEVER} Mon Sep 17 00:00:00 2001",
    "From x Mon Sep 17 00:00:00 91",
    "From x Mon Sep 17 00:00:00 1985",
    f"From {'y' * 400} Mon Sep 17 00:00:00 2001",
    "From \tx Mon Sep 17 00:00:00 2001",
    "From  x Mon Sep 17 00:00:00 2001",
    "From x 0:00:00 02001",
    "From x 1:00:00 2001 and words",
    "From x 00:00:00 +2001",
    "From x 00:00:00\v2001",
    "From a:b:c:d 23:59:59 0000093",
    "From ü Mon Sep 17 00:00:00 2001",
    # From here on git sees none.
    "From 00:00:00 2001",
    "From x Mon Sep 17 00:00:00 90",
    "From x Mon Sep 17 00:00 2001",
    "From x Mon Sep 17 00:00:00 -2001",
    "From x 2001 Mon Sep 17 00:00:00",
    ">From x Mon Sep 17 00:00:00 2001",
    " From x Mon Sep 17 00:00:00 2001",
    "from x Mon Sep 17 00:00:00 2001",
)
ENCODINGS = ("base64", "Base64", "quoted-printable", "x-base64; 8bit", '"base64"', "7bit\n base64")
NOISE = (
    ">From x",
    ">From : y",
    "X-Other: a\n Content-Type: text/plain",
    "Index: words",
    " folded",
    "\tfolded",
    "Content-Transfer-Encoding: 8bit",
    "Content-Type: text/plain; charset=UTF-8",
    "content-type: text/plain",
    "X-Nul: a\0b",
    "Subject: again",
    "From: Mallory <m@example.test>",
    ":",
    "X: y\r",
    "MIME-Version: 1.0",
)
TYPES = (
    'text/plain; charset="utf-8"',
    "text/plain; charset=utf-16",
    "text/plain; charset=UTF-7",
    "text/plain; format=flowed",
    "text/plain; format=flowed; delsp=yes",
    "text/html",
    "text/plain;\n boundary=cut",
    'multipart/mixed; boundary="cut"',
    "multipart/alternative;\n\tboundary=cut",
    "text/plain\n ; charset=utf-16",
    "message/rfc822",
)
WORDS = (
    "What it does and why.",
    "-- >8 --",
    "8< ---- cut",
    "From: Seed <seed@example.test>",
    "Subject: other",
    ">From x",
    "From x",
    "---",
    "--- ",
    "@@ -1 +1 @@",
    "Content-Transfer-Encoding: base64",
    "Content-Type: multipart/mixed; boundary=cut",
    "--cut",
    "--cut--",
    "",
    "[PATCH] more",
    "\\ No newline at end of file",
    "+added in words",
    "diff is great",
    "Grüße",
)
TAILS = (
    "-- \n2.39.5\n",
    "-- \n2.39.5\n\n",
    "--\n",
    "-- \n2.39.5\n\nbase-commit: " + NEVER + "\n",
    "",
    "\n",
    "words behind it\n",
    "-- \nname\n" + base64.b64encode(b"x" * 300).decode() + "\n",
)
FRONTS = (
    "",
    "",
    "",
    "",
    "",
    "",
    "\n",
    "  \n\n",
    " ",
    "# HG changeset patch\n# User x\n",
    "# This series applies on GIT commit x\n",
    "A title\n\nFrom: A <a@example.test>\n",
    "words\n",
)

BENT = (
    ("-", "-0"),
    ("-", "-0000000000"),
    ("+", "+000"),
    (" @@", " @@@"),
    (" @@", " @@ def f():"),
    ("@@ ", "@@  "),
    (" +", "  +"),
    (",", ",0"),
    (",", ",1"),
    ("-", "--"),
    ("@@ -", "@@@ -"),
    ("@@ -", "@@ -1"),
)


@dataclass
class OddMail:
    """One mail while it is made; `body` is what follows its headers."""

    separator: str
    headers: list[str]
    body: str
    tail: str = "-- \n2.39.5\n\n"
    encoded: bool = False

    def text(self) -> str:
        """The mail as it stands in the mailbox."""
        head = "".join(f"{line}\n" for line in (self.separator, *self.headers) if line)
        return f"{head}\n{self.body}{self.tail}"


@dataclass(frozen=True)
class Mailbox:
    """A mailbox, and the names of what was done to it; without any it is as format-patch writes it."""

    data: bytes
    kinds: list[str] = field(default_factory=list)


def make_mailbox(seed: int) -> Mailbox:
    """The mailbox of that seed: a tenth of them honest, half with a mail that git decodes, the others odd elsewhere."""
    random = Random(seed)
    count = random.randint(1, 3)
    files = random.sample(sorted(FILES), count)
    mails = [_honest(random, seed, place, name) for place, name in enumerate(files)]
    kinds: list[str] = []
    if random.random() > 0.1:
        if random.random() < 0.5:
            kinds.append(_encode(random, mails[-1]))
        for _ in range(random.randint(0 if kinds else 1, 3)):
            kind = random.choice(KINDS)
            OPERATORS[kind](random, random.choice(mails))
            kinds.append(kind)
    text = "".join(mail.text() for mail in mails)
    data = text.encode()
    if kinds and random.random() < 0.15:
        data = random.choice(FRONTS).encode() + data
        kinds.append("front")
    if kinds and random.random() < 0.05:
        data = data.replace(b"\n", b"\r\n")
        kinds.append("crlf")
    if kinds and random.random() < 0.05:
        at = random.randrange(len(data))
        data = data[:at] + random.choice((b"\0", b"\r", b"\n", b" ", b"\xff", b"+")) + data[at + random.randint(0, 1) :]
        kinds.append("byte")
    return Mailbox(data, kinds)


def _honest(random: Random, seed: int, place: int, name: str) -> OddMail:
    authors = ("Ana <ana@example.test>", "=?UTF-8?q?J=C3=BCrgen?= <j@example.test>", '"Doe, J." <j@x.test>')
    subject = random.choice(("Mend it", "Grüße", "A long subject " * 7)).strip()
    headers = [
        f"From: {random.choice(authors)}",
        "Date: Mon, 13 Nov 2017 22:06:44 +0000",
        f"Subject: [PATCH {place + 1}/3] {subject}",
    ]
    if random.random() < 0.5:
        mime = ("MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit")
        headers += mime
    body = random.choice(("", "Why it does so.\n\nÜber alles.\n"))
    return OddMail(SEPARATORS[0], headers, f"{body}---\n one | 1 +\n\n{_diff(random, seed, place, name)}")


def _diff(random: Random, seed: int, place: int, name: str) -> str:
    """A change whose added lines no other file or mailbox has."""
    added = [f"added {seed} {place} {line}" for line in range(random.randint(1, 4))]
    kind = random.randrange(6)
    if kind < 2:
        head = f"diff --git a/n{place}.txt b/n{place}.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n{place}.txt\n"
        return head + f"@@ -0,0 +1,{len(added)} @@\n" + "".join(f"+{line}\n" for line in added)
    old = FILES[name]
    at = random.randrange(len(old))
    new = [*old[:at], *added, *old[at + random.randint(0, 1) :]]
    target = f"r{place}.txt" if kind == 5 else name
    lines = "".join(f"{line}\n" for line in unified_diff(old, new, f"a/{name}", f"b/{target}", lineterm=""))
    if kind == 5:
        moved = random.choice(("rename", "copy"))
        names = f"similarity index 80%\n{moved} from {name}\n{moved} to {target}\n"
        return f"diff --git a/{name} b/{target}\n{names}{lines}"
    return ("" if kind == 4 else f"diff --git a/{name} b/{name}\n") + lines


def _encode(random: Random, mail: OddMail) -> str:
    """Encode a mail's body and say so in a header, openly or where a reader may overlook it."""
    data, mail.tail = f"{mail.body}{mail.tail}".encode(), ""
    kind = random.choice(("base64", "quoted-printable", "multipart", "flowed"))
    mail.headers = [line for line in mail.headers if not line.startswith(("Content-", "MIME-"))]
    if kind == "base64":
        mail.body = base64.encodebytes(data).decode() + "\n"
        mail.headers.append(f"Content-Transfer-Encoding: {random.choice(ENCODINGS[:2] + ENCODINGS[3:])}")
    elif kind == "quoted-printable":
        mail.body = quopri.encodestring(data).decode().replace("added", "ad=\nded").replace("diff", "=64iff") + "\n"
        mail.headers.append("Content-Transfer-Encoding: Quoted-Printable")
    elif kind == "multipart":
        inner = "Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(data).decode()
        mail.body = f"--cut\n{inner}--cut--\n"
        mail.headers.append(f"Content-Type: {random.choice(TYPES[7:9])}")
    else:
        mail.body = "".join(f" {line}\n" for line in data.decode().splitlines())
        mail.headers.append(f"Content-Type: {TYPES[random.choice((3, 4))]}")
    for _ in range(random.randint(0, 2)):
        mail.headers.insert(random.randrange(len(mail.headers) + 1), random.choice(NOISE))
    if random.random() < 0.6:
        mail.separator = random.choice(SEPARATORS[:12])
    return kind


def _separator(random: Random, mail: OddMail) -> None:
    mail.separator = random.choice(SEPARATORS)


def _header(random: Random, mail: OddMail) -> None:
    mail.headers.insert(random.randrange(len(mail.headers) + 1), random.choice(NOISE))


def _type(random: Random, mail: OddMail) -> None:
    mail.headers.insert(random.randrange(len(mail.headers) + 1), f"Content-Type: {random.choice(TYPES)}")


def _encoding(random: Random, mail: OddMail) -> None:
    value = random.choice(ENCODINGS)
    mail.headers.insert(random.randrange(len(mail.headers) + 1), f"Content-Transfer-Encoding: {value}")


def _words(random: Random, mail: OddMail) -> None:
    mail.body = "".join(f"{random.choice(WORDS)}\n" for _ in range(random.randint(1, 4))) + mail.body


def _between(random: Random, mail: OddMail) -> None:
    lines = mail.body.split("\n")
    lines.insert(random.randrange(len(lines)), random.choice((*WORDS, *SEPARATORS)))
    mail.body = "\n".join(lines)


def _tail(random: Random, mail: OddMail) -> None:
    mail.tail = random.choice(TAILS)


def _hidden_diff(random: Random, mail: OddMail) -> None:
    diff = _diff(random, random.randrange(10**6, 10**7), 9, random.choice(sorted(FILES)))
    if random.random() < 0.5:
        mail.body = diff + mail.body
    else:
        mail.tail += diff


def _line(random: Random, mail: OddMail) -> None:
    """Take a line away, say it twice or change its blanks: hunks that count wrongly, headers that lack."""
    lines = mail.body.split("\n")
    at = random.randrange(len(lines))
    line = lines[at]
    lines[at : at + 1] = random.choice(([], [line, line], [f"{line}\r"], [f"{line} "], [line.strip()]))
    mail.body = "\n".join(lines)


def _mbox_quoting(_: Random, mail: OddMail) -> None:
    mail.body = ">" + mail.body


def _subversion(random: Random, mail: OddMail) -> None:
    index = f"Index: f{random.randrange(6)}.txt\n{'=' * 60}\n"
    mail.body = mail.body.replace("diff --git", f"{index}diff --git", 1)


def _no_end(random: Random, mail: OddMail) -> None:
    """Say of a line amid a hunk that it has no end, so that git joins the next to it."""
    lines = mail.body.split("\n")
    added = [place for place, line in enumerate(lines) if line.startswith("+added")]
    if added:
        lines.insert(random.choice(added) + 1, "\\ No newline at end of file")
        mail.body = "\n".join(lines)


def _name(random: Random, mail: OddMail) -> None:
    """Bend a line that names a file, or say it once more."""
    lines = mail.body.split("\n")
    named = [
        place for place, line in enumerate(lines) if line.startswith(("diff --git", "--- ", "+++ ", "rename", "copy"))
    ]
    if not named:
        return
    at = random.choice(named)
    word, _, name = lines[at].rpartition(" ")
    other = random.choice(
        ("b/else.txt", "/dev/null", f"{name}\t2019-01-01", f'"{name}"', f"{name} ", "x.txt", "b//n.txt")
    )
    bent = f"{word} {other}"
    lines[at : at + 1] = random.choice(([bent], [lines[at], bent], [bent, lines[at]]))
    mail.body = "\n".join(lines)


def _hunk(random: Random, mail: OddMail) -> None:
    """Write the counts of a hunk in another way, or other counts."""
    lines = mail.body.split("\n")
    heads = [place for place, line in enumerate(lines) if line.startswith("@@ -")]
    if not heads:
        return
    at = random.choice(heads)
    was, to = random.choice(BENT)
    lines[at] = lines[at].replace(was, to, 1)
    mail.body = "\n".join(lines)


def _binary(random: Random, mail: OddMail) -> None:
    """Add a file of text as git writes what is binary."""
    text = f"binary {random.randrange(10**9)}\n".encode()
    name = hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()
    packed = zlib.compress(text)
    data = base64.b85encode(packed, pad=True).decode()
    mail.body += f"diff --git a/p.txt b/p.txt\nnew file mode 100644\nindex {NEVER}..{name}\nGIT binary patch\n"
    mail.body += f"literal {len(text)}\n{_length(len(packed))}{data}\n\nliteral 0\nHcmV?d00001\n\n"


def _length(size: int) -> str:
    return chr(ord("A") + size - 1) if size <= 26 else chr(ord("a") + size - 27)


def _unended(_: Random, mail: OddMail) -> None:
    """Leave out what comes behind the patch, and its last line end."""
    mail.body, mail.tail = mail.body.rstrip("\n"), ""


OPERATORS: Mapping[str, Callable[[Random, OddMail], None]] = {
    "separator": _separator,
    "header": _header,
    "type": _type,
    "encoding": _encoding,
    "words": _words,
    "between": _between,
    "tail": _tail,
    "hidden diff": _hidden_diff,
    "line": _line,
    "no end": _no_end,
    "name": _name,
    "hunk": _hunk,
    "binary": _binary,
    "unended": _unended,
    "quoted": _mbox_quoting,
    "subversion": _subversion,
}
KINDS = ("separator", *OPERATORS)
