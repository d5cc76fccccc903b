"""Private keys in their text forms: PEM, OpenSSH, PGP and PuTTY."""

import re
from collections.abc import Iterator

from scoring.content.finding import Severity
from scoring.evidence._placeholders import is_placeholder, is_random
from scoring.evidence._secret_hits import Hit

_BEGIN = re.compile(
    r"-----BEGIN (?P<kind>(?:RSA |DSA |EC |OPENSSH |ENCRYPTED |ANY |PGP |SSH2 ENCRYPTED )?)PRIVATE KEY(?: BLOCK)?-----"
    r"|PuTTY-User-Key-File-[23]:"
)
_WINDOW = 1_200  # characters behind the first line, where its second and third stand whatever the carrier puts between
_BODY = re.compile(r"[0-9A-Za-z+/]{40,}={0,2}")
_LINE_END = re.compile(r"\\[nr]")


def find_private_keys(text: str) -> Iterator[Hit]:
    """Find each first line of a key that is followed by the key itself; code that only names the line is not."""
    for begin in _BEGIN.finditer(text):
        window = _LINE_END.sub("\n", text[begin.end() : begin.end() + _WINDOW]).partition("-----END")[0]
        body = "".join(_BODY.findall(window))
        if len(body) < 60 or not is_random(body, 4.0) or is_placeholder(body):
            continue
        encrypted = "ENCRYPTED" in begin[0] or "ENCRYPTED" in window[:100]
        end = min(begin.end() + len(window) + window.count("\n"), len(text))
        yield Hit("private-key", "a private key", begin.end(), end, Severity.MED if encrypted else Severity.HIGH)
