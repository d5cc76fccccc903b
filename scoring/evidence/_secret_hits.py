"""One place of a text that looks like a secret, before it is weighed."""

from dataclasses import dataclass

from scoring.content.finding import Severity


@dataclass(frozen=True, slots=True)
class Hit:
    """The secret is `text[start:end]`. `proven`: its own checksum says that an issuer made it.

    `generic`: only the name that it is assigned to, or the URL that it stands in, says that it is a secret.
    """

    rule: str
    what: str
    start: int
    end: int
    severity: Severity
    proven: bool = False
    generic: bool = False
