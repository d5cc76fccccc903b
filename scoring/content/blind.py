"""Which findings tell who the author is: kept for maintainers, withheld from every reviewer. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from scoring.content.finding import Finding

# (scanner, rule): findings that rest on who somebody is.
IDENTITY_RULES = frozenset(
    ("commit_author", rule) for rule in ("other-person", "other-name", "several-people", "two-people")
)
# Findings that a reviewer may read, but for the quote, which names another pull request and so its author.
QUOTES_A_PERSON = frozenset({("near_duplicates", "like-known-bad")})


def without_identity(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that may be handed to a reviewer, in their order; nothing in them says who the author is."""
    kept = (finding for finding in findings if (finding.scanner, finding.rule) not in IDENTITY_RULES)
    return [replace(one, quote="") if (one.scanner, one.rule) in QUOTES_A_PERSON else one for one in kept]
