"""The audit draw: which fast-laned pull requests a person checks all the same. Pure.

The draw is a keyed hash of the pull request's address: whoever lacks the key cannot tell it from chance, whoever has it
can repeat it, and a new round of the same pull request draws nothing new. The odds are kept with it: an audited outcome
weighs 1 / odds (facts/trust.md §2.3).
"""

import hmac
from dataclasses import dataclass, field

from scoring.rules import check_unit
from scoring.verdict import Draw

PURPOSE = b"audit draw\x00"  # the key serves other purposes too
UNIT = 2.0**-64


@dataclass(frozen=True, slots=True)
class AuditRules:
    """How many are drawn: all of the `first`, then the share in [0, 1] that gives about `per_day` a day, if larger.

    The defaults: at a share of 5 % alone and 20 a day, a rate of 12 % bad instead of 5 % is found after 79 days.
    Raises ValueError for what is negative or no share.
    """

    share: float = 0.05
    per_day: float = 5.0
    first: int = 60

    def __post_init__(self) -> None:
        check_unit("AUDIT_SHARE", self.share)
        if not 0 <= self.per_day < float("inf") or self.first < 0:
            raise ValueError("AUDIT_PER_DAY and AUDIT_FIRST must be 0 or more")


def audit_odds(rules: AuditRules, drawn_from: int, daily: float) -> float:
    """The odds in [0, 1] of the next one, after `drawn_from` others were up for the draw, `daily` of them a day."""
    if drawn_from < rules.first:
        return 1.0
    wanted = rules.per_day / daily if daily > 0 else float(rules.per_day > 0)
    return min(max(rules.share, wanted), 1.0)


def draw_audit(key: bytes, pull_uri: str, odds: float) -> Draw:
    """Whether this pull request is drawn with these odds; the same answer whenever it is asked. ValueError: no key."""
    if not key:
        raise ValueError("the audit draw needs a key: without one its outcome could be foretold")
    check_unit("the odds of the audit", odds)
    digest = hmac.digest(key, PURPOSE + pull_uri.encode(), "sha256")
    return Draw(int.from_bytes(digest[:8], "big") * UNIT < odds, odds)


@dataclass(slots=True)
class Ballot:
    """The draws of one pass: `drawn_from` pull requests were up before it, `daily` of them a day; `draws` are its own.

    Whoever was drawn, or not, stays so: a pull request is drawn once.
    """

    rules: AuditRules
    key: bytes
    drawn_from: int
    daily: float
    draws: dict[str, tuple[int, Draw]] = field(default_factory=dict)  # pull_uri to repository_id and draw

    def draw(self, pull_uri: str, repository_id: int) -> Draw:
        """Draw one that has no draw yet, with the odds of its turn."""
        odds = audit_odds(self.rules, self.drawn_from + len(self.draws), self.daily)
        found = draw_audit(self.key, pull_uri, odds)
        self.draws[pull_uri] = repository_id, found
        return found
