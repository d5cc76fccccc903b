"""Recognises licences by short phrases of their headers and texts, each enough to tell one from the others."""

import re
from collections.abc import Iterator, Sequence

from scoring.content.change import Line

_COMMENT = re.compile(r"^[\s#*/;%<!\-.\"']+|[\s*/\->\"']+$")
# The first that fits a text names it: the longer names contain the shorter.
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"gnu affero general public license|\bagpl ?v?3\b", "AGPL-3.0-or-later"),
    (r"gnu (?:lesser|library) general public license|\blgpl ?v?[23]\b", "LGPL-2.1-or-later"),
    (r"gnu general public license|\bgpl ?v[23]\b", "GPL-2.0-or-later"),
    (r"server side public license", "SSPL-1.0"),
    (r"business source license", "BUSL-1.1"),
    (r"elastic license", "Elastic-2.0"),
    (r"polyform (?:noncommercial|small business|shield)", "PolyForm-Noncommercial-1.0.0"),
    (r"commons clause", "Commons-Clause"),
    (r"creative commons[^.]{0,40}non-?commercial|cc[- ]by-nc", "CC-BY-NC-4.0"),
    (r"non-?commercial use only|not for commercial use", "LicenseRef-Noncommercial"),
    (r"proprietary and confidential|confidential and proprietary", "LicenseRef-Proprietary"),
    (r"unauthori[sz]ed copying of this (?:file|software)", "LicenseRef-Proprietary"),
    (r"mozilla public license", "MPL-2.0"),
    (r"eclipse public license", "EPL-2.0"),
    (r"common development and distribution license", "CDDL-1.0"),
)
_COMPILED = tuple((re.compile(pattern), key) for pattern, key in _PHRASES)
_HINTS = ("licen", "gpl", "commons", "commercial", "confidential", "unauthori", "cc-by", "cc by")
COPYRIGHT = re.compile(r"\bcopyright\b.{0,20}(?:\(c\)|©|\d{4})|\(c\) ?\d{4}|©", re.IGNORECASE)


def named_licences(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Yield the licences that lines name, each with the line where its name begins; a name may span two lines."""
    texts = [_COMMENT.sub("", line.text[:1_000]).lower() for line in lines]
    for place, line in enumerate(lines):
        joined = " ".join(texts[place : place + 2])
        if not any(hint in joined for hint in _HINTS):
            continue
        begins = len(texts[place])
        for pattern, key in _COMPILED:
            found = pattern.search(joined)
            if found and found.start() < max(begins, 1):
                yield line, key
                break


def holder_of(line: Line) -> str | None:
    """Return the holder that a copyright line names, without years and signs; None for any other line."""
    text = line.text[:1_000]
    if COPYRIGHT.search(text) is None:
        return None
    return " ".join(re.findall(r"[^\W\d_]+", text.lower()))
