"""People who are planted into changes, in every place where a text says who wrote it."""

from dataclasses import dataclass, replace
from random import Random

from scoring.diff.change import Change, FileChange, Hunk, Line, Mail
from scoring.scanners.submission import Account, Knowledge, Submission


@dataclass(frozen=True)
class Person:
    """Somebody, by every string that tells who it is."""

    did: str
    handle: str
    name: str
    email: str
    user: str

    @property
    def account(self) -> Account:
        return Account(self.did, self.handle, (self.name,), (self.email,))

    @property
    def strings(self) -> tuple[str, ...]:
        return (self.did, self.handle, self.name, self.email, self.user)

    def fill(self, text: str) -> str:
        """A text with this person in the places of a template."""
        for field, value in zip(("did", "handle", "name", "email", "user"), self.strings, strict=True):
            text = text.replace(f"[{field}]", value)
        return text


MALLORY = Person(
    "did:plc:mallorymallory2222", "mallory.bsky.social", "Mallory Vance", "mallory@vance.example", "mallory"
)
QUENTIN = Person(
    "did:web:quentin.example.org", "quentin.example.org", "Quentin Zo\u00eb O\u2019Hara", "qz@o-hara.test", "quentin"
)
TRUDY = Person("did:plc:trudytrudytrudy33333", "trudy.tngl.sh", "Trudy Intruder", "trudy+x@mail.intruder.io", "trudy")

LINES = (
    "Signed-off-by: [name] <[email]>",
    "    Co-authored-by: [name] <[email]>",
    "# Reviewed-by: [name]",
    "Suggested-by: [name] (on the list)",
    "Cc: [name] <[email]>, Other <other@list.example>",
    "From: [name] <[email]>",
    "Author: [name] <[email]>",
    "Message-ID: <20171113.1234-1-[email]>",
    "# write to [email], or to <[email]>",
    "x = 'mailto:[email]'",
    "# thanks to @[user] and @[handle] for the idea",
    "see https://github.com/[user]/tool/issues/1 and https://codeberg.org/[user].",
    "url: https://git.sr.ht/~[user]/tool, https://gitlab.com/[user]/tool.git",
    "link(`https://tangled.org/@[handle]/tool`, 'https://tangled.sh/[user]/tool')",
    "<a href='https://bsky.app/profile/[handle]'>me</a>",
    "git clone git@github.com:[user]/tool.git",
    "x = 'at://[did]/app.bsky.feed.post/3k2a'",
    "assert owner == '[did]'",
    '\t"github.com/[user]/tool/v2/client"',
    "require github.com/[user]/tool v1.2.3 // indirect",
    '    "@[user]/tool": "^1.0.0",',
    "// Copyright (c) 2019-2024 [name] <[email]>",
    "/* Copyright \u00a9 [name]. All rights reserved. */",
    "\u00a9 2024 by [name]",
    "# SPDX-FileCopyrightText: 2024 [name] <[email]>",
    ' * @author [name]',
    "# Author: [name]",
    "// Written by [name], 2024",
    "__author__ = '[name]'",
    "# TODO([user]): remove",
    "# fixes [user]/tool#12",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGxvbmdlbm91Z2hrZXlmb3J0ZXN0cw [user]@laptop",
    "[user]@laptop:~/src$ make",
    "open('/home/[user]/src/x')",
    "path = r'C:\\Users\\[user]\\src' + 'C:\\\\Users\\\\[user]\\\\x' + '/Users/[user]/x'",
    "<img src='https://avatars.githubusercontent.com/[user]?s=40'> https://www.gravatar.com/avatar/[user]",
    "https://[user].github.io/tool",
    "# (C) Copyright 2020 [name]",
    "// Copyright [name]",
    "__copyright__ = '2020, [name]'",
    ":author: [name]",
    "\\author{[name]}",
    "<author>[name]</author>",
    "<meta name='author' content='[name]'>",
    "author: [name]",
    '  "maintainer": "[name]",',
    "git config --global user.name '[name]' && git config user.email [email]",
    "export GIT_AUTHOR_NAME='[name]' GIT_COMMITTER_EMAIL=[email]",
    "# write to [user] [at] mail.example [dot] org, [user] at mail.example dot org or [user]%40mail.example.org",
    "https://git.example.org/[user]/tool.git and https://knot1.example.org:3000/[user]/tool",
    "https://social.example/@[user] or @[user]@social.example",
    "https://[user]:hunter2@example.org/x",
    "ssh [user]@10.0.0.5",
    "[[user]@laptop src]$ make",
    "cd ~[user]/src",
    "http://[user]s-laptop.local:8080/ host: [user]-desktop.lan and [user]s-MacBook-Pro",
    "![stars](https://img.shields.io/github/stars/[user]/tool)",
    "docker pull ghcr.io/[user]/tool",
    "Merge branch '[user]/fix-login' into main",
    "Merge pull request #7 from [user]/fix-login",
    '  "repository": "[user]/tool"',
    '  "repository": "github:[user]/tool"',
    "# TODO[[user]] later, // todo([user])",
    "# [name], 2020.",
    '"Last-Translator: [name] <[email]>\\n"',
)  # fmt: skip
FILES = {
    "AUTHORS": ("[name] <[email]>", "* [name]", "[name] (@[user])"),
    "docs/CONTRIBUTORS.md": ("- [name]", "| [name] | [user] |"),
    "MAINTAINERS": ("M:\t[name] <[email]>",),
    ".mailmap": ("[name] <[email]> <old@vance.example>",),
    "humans.txt": ("Chef: [name]", "Contact: [email]"),
    ".github/CODEOWNERS": ("*.py @[user] [email]", "/docs/ @[handle]"),
    ".gitmodules": ('[submodule "x"]', "\turl = https://git.example.org/[user]/x"),
    "package.json": (
        '  "author": "[name] <[email]>",', '  "contributors": [', '    {', '      "name": "[name]",',
        '      "email": "[email]"', "    },", '    "[name]"', "  ],", '  "maintainers": ["[name]", "[user]"],',
    ),
    "Cargo.toml": ('authors = ["[name] <[email]>", "[name]"]', 'name = "tool"'),
    "pyproject.toml": (
        "authors = [", '  {name = "[name]", email = "[email]"},', "]", 'maintainers = [{name="[name]"}]',
    ),
    "setup.py": ("    author='[name]',", '    author_email="[email]",', '    maintainer="[name]",'),
    "tool.gemspec": ("  s.authors = ['[name]']", '  s.email = "[email]"'),
    "setup.cfg": ("author = [name]", "author_email = [email]"),
    "pom.xml": ("<developers><developer>", "  <name>[name]</name>", "  <id>[user]</id>", "</developer></developers>"),
    "CITATION.cff": ("authors:", "  - family-names: [name]", "    given-names: [name]", "title: tool"),
    "services/OWNERS": ("approvers:", "  - [user]"),
    ".github/FUNDING.yml": ("github: [user]", "ko_fi: '[user]'", "patreon: ['[user]', \"[user]\"]"),
    ".all-contributorsrc": ('      "login": "[user]",', '      "name": "[name]",', '      "profile": "https://[user].dev"'),
    "AUTHORS.in": ("[name] <[email]>",),
    "MAINTAINERS.toml": ("[[person]]", 'name = "[name]"', 'github = "[user]"'),
    ".gitconfig": ("\tname = [name]", "\temail = [email]"),
    "Dockerfile": ("MAINTAINER [name] <[email]>", 'LABEL maintainer="[name]"', 'LABEL image.authors="[name]"'),
    "tool/pyproject.toml": ("[[project.authors]]", 'name = "[name]"', "[project]", 'name = "tool"'),
    "LICENSE": ("Copyright (c) 2024 [name]", "Licensor:             [name]"),
}  # fmt: skip
KNOWN_ONLY = ("as [user] said, and [name] too", "def [user]_token(): ...", "ask [user], [handle]")
TIMES = ("Date: Mon, 13 Nov 2017 22:06:44 +0930", "# 2017-11-13T22:06:44+09:30", "Mon Nov 13 22:06:44 2017 +0930")


def planted(change: Change, author: Person, draw: Random, stranger: Person = TRUDY) -> Submission:
    """A submission whose real change names its author and a stranger in every place."""
    lines = [author.fill(line) for line in (*LINES, *KNOWN_ONLY, *TIMES)] + [stranger.fill(line) for line in LINES]
    files = [_with_lines(file, lines, draw) for file in change.files[:2]] + list(change.files[2:])
    for path, template in FILES.items():
        files += [_new_file(path, tuple(map(person.fill, template))) for person in (author, stranger)]
    files.append(_new_file(author.fill("notes/[user]/[name].md"), ("Nothing.",)))
    mail = Mail(author.name, author.email, TIMES[0], author.fill("Ask [name]"), "\n".join(lines))
    words = author.fill("@[user], [name] and [handle] wrote on 2017-11-13 to [email]:\n") + "\n".join(lines)
    return Submission(
        change=replace(change, files=tuple(files), mails=(mail,)),
        title=author.fill("Let [name] in ([did])"),
        description=words,
        discussion=(("author", words), ("reviewer-1", stranger.fill("@[user] and [handle]: no"))),
        knowledge=Knowledge(account=author.account),
    )


def _with_lines(file: FileChange, lines: list[str], draw: Random) -> FileChange:
    """A file with lines put into its first hunk, each at a place drawn."""
    if not file.hunks:
        return file
    content = list(file.hunks[0].lines)
    for text in lines:
        content.insert(draw.randrange(len(content) + 1), Line("+", None, 1, text))
    return replace(file, hunks=(replace(file.hunks[0], lines=tuple(content)), *file.hunks[1:]))


def _new_file(path: str, lines: tuple[str, ...]) -> FileChange:
    content = tuple(Line("+", None, number, text) for number, text in enumerate(lines, start=1))
    return FileChange(path, path, "added", (Hunk(0, 1, "", content),))
