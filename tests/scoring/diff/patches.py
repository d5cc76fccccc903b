"""Patches that tests of the reading share: one small change, and mails around it."""

from scoring.diff.change import FileChange, Hunk

SUM = """diff --git a/sum.py b/sum.py
index 1111111..2222222 100644
--- a/sum.py
+++ b/sum.py
@@ -10,3 +10,4 @@ def total(items):
     result = 0
-    for item in items[1:]:
+    for item in items:
+        check(item)
         result += item
"""
FROM = "From 773444192f16f6abde8acda30cea47cd7a46fe5e Mon Sep 17 00:00:00 2001\n"
SIGNATURE = "-- \n2.43.0\n\n"


def mail(diff: str = SUM, subject: str = "[PATCH] Count the first item too", body: str = "", **headers: str) -> str:
    """A mail as `git format-patch` writes it; other headers by keyword, `_` for a hyphen."""
    told = {"From": "Ana <ana@example.test>", "Date": "Mon, 13 Nov 2017 22:06:44 +0000", "Subject": subject}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\n" for name, value in told.items())
    return f"{FROM}{head}\n{body}---\n sum.py | 3 ++-\n\n{diff}{SIGNATURE}"


def one_line(path: str, added: str = "b") -> str:
    """A change of one line in one file."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+{added}\n"


def rendered(hunk: Hunk) -> str:
    """A hunk as text again, its counts from its lines."""
    old = sum(line.mark != "+" for line in hunk.lines)
    new = sum(line.mark != "-" for line in hunk.lines)
    head = f"@@ -{hunk.old_start},{old} +{hunk.new_start},{new} @@ {hunk.section}".rstrip(" ")
    return "".join(f"{line}\n" for line in (head, *(line.mark + line.text for line in hunk.lines)))


def counts(files: tuple[FileChange, ...]) -> list[tuple[str, int, int]]:
    """(path, added, removed) of each file, in order."""
    return [(file.path, len(list(file.added())), len(list(file.removed()))) for file in files]
