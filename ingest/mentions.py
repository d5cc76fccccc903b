"""Find where a text names a person: by DID, by verified handle, or by the short form in which a DID is shown."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ingest.long_texts import PREFIX, LongTexts

ERASED = "(erased)"
_PLC = "did:plc:"
# The end of a name that could go on: did:web:a.example is another DID than did:web:a.example.org.
_ENDS = r"(?![A-Za-z0-9%-]|[._:][A-Za-z0-9])"


@dataclass(frozen=True)
class Names:
    """The names of one person. `handle` only where its own domain confirmed it: a claimed one may be anybody's.

    `long_texts` are references (ingest/long_texts.py) of texts that name the person: such a reference does so too, and
    refers to them, since a text that is named by its hash cannot be changed and goes as a whole.
    """

    did: str
    handle: str | None = None
    long_texts: frozenset[str] = frozenset()

    def with_long_texts(self, texts: LongTexts, searched: Collection[Path] = ()) -> "Names":
        """The same, with those of a store's long texts that name the person, which takes as long as reading all.

        Files that were `searched` already are not read again: the name of a file is the hash of its text.
        """
        return replace(self, long_texts=self.long_texts.union(texts.matching(self.named_in, searched)))

    @property
    def short(self) -> str:
        """The DID as judgements show it, cut in the middle."""
        return self.did if len(self.did) <= 20 else f"{self.did[:14]}…{self.did[-4:]}"

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Texts of which at least one stands in every text that names the person, in lower case."""
        own = self.did.removeprefix(_PLC) if self.did.startswith(_PLC) else self.did.rpartition(":")[2]
        return tuple(text.lower() for text in (own, self.short, self.handle) if text)

    @cached_property
    def column_needles(self) -> tuple[str, ...]:
        """The same for columns, which may hold references of long texts."""
        return (*self.needles, PREFIX) if self.long_texts else self.needles

    @cached_property
    def _did(self) -> str:
        """The DID, also with its colons escaped as in a URL; the 24 characters of a did:plc name it alone."""
        method, _, own = self.did.removeprefix("did:").partition(":")
        colon = "(?::|%3[Aa])"
        spelled = f"did{colon}{method}{colon}"
        plc = self.did.startswith(_PLC)
        return f"(?:{spelled})?{re.escape(own)}" if plc else f"{spelled}{re.escape(own)}{_ENDS}"

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        parts = [rf"at://{self._did}(?:/[A-Za-z0-9._:~%/-]*)?", self._did]
        if self.short != self.did:
            parts.append(re.escape(self.short))
        if self.handle:
            parts.append(rf"(?<![A-Za-z0-9.-])(?i:{re.escape(self.handle)}){_ENDS}")
        return re.compile("|".join(parts))

    @cached_property
    def _reference(self) -> re.Pattern[str]:
        return re.compile(rf"(?:at://)?{re.escape(self.did)}{_ENDS}")

    @cached_property
    def _quoted_reference(self) -> re.Pattern[str]:
        return re.compile(rf'"(?:at://)?{re.escape(self.did)}{_ENDS}')

    def named_in(self, text: str) -> bool:
        """Whether the text names the person anywhere."""
        return text in self.long_texts or self._anywhere.search(text) is not None

    def referred_by(self, text: str) -> bool:
        """Whether the text is a reference: the DID, one of its records, or a look-up that begins with one of them."""
        return self._reference.match(text) is not None

    def referred_in_json(self, text: str) -> bool:
        """Whether a text of this JSON is such a reference."""
        return text in self.long_texts or self._quoted_reference.search(text) is not None

    def struck_from(self, text: str) -> str:
        """The text with every mention, at-uris whole, replaced by a word."""
        return self._anywhere.sub(ERASED, text)
