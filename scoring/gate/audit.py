"""The audit draw: which fast-laned pull requests a person checks all the same. Pure.

The draw is a keyed hash of what was judged: whoever lacks the key cannot tell it from chance, whoever has it can repeat
it. Each round is drawn anew, else somebody who saw that theirs was not drawn could send anything as the next one; what
was drawn once stays drawn, else another round would be a way out. So the odds of a round, which are kept with it, are
those that it or one before it was drawn: an audited outcome weighs 1 / odds.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scoring.config.policy import AuditRules
from scoring.thresholds import check_unit
from scoring.types import Draw

PURPOSE = b"audit draw\x00"  # the key serves other purposes too
UNIT = 2.0**-64


def audit_odds(rules: AuditRules, drawn_from: int, daily: float) -> float:
    """The odds in [0, 1] of the next one, after `drawn_from` others were up for the draw, `daily` of them a day."""
    if drawn_from < rules.first:
        return 1.0
    wanted = rules.per_day / daily if daily > 0 else float(rules.per_day > 0)
    return min(max(rules.share, wanted), 1.0)


class Judged(NamedTuple):
    """The subject of a draw: one round of a pull request as a decision names it; "" for a part that is not known."""

    pull_uri: str
    round: int
    record_cid: str
    patch_id: str


def draw_audit(key: bytes, judged: Judged, odds: float) -> Draw:
    """Return whether this round is drawn with these odds; the same answer whenever it is asked. ValueError: no key."""
    if not key:
        raise ValueError("the audit draw needs a key: without one its outcome could be foretold")
    check_unit("the odds of the audit", odds)
    digest = hmac.digest(key, PURPOSE + "\x00".join(map(str, judged)).encode(), "sha256")
    return Draw(int.from_bytes(digest[:8], "big") * UNIT < odds, odds)


NOT_DRAWN = Draw(False, 0.0)


@dataclass(slots=True)
class Ballot:
    """The draws of one pass: `drawn_from` pull requests were up before it, `daily` of them a day; `draws` are its own.

    `earlier` is the newest draw of each open pull request that was up before. Its further rounds take no turn of
    another one: else many rounds of one pull request would use up the first ones, which are all audited.
    """

    rules: AuditRules
    key: bytes
    drawn_from: int
    daily: float
    earlier: Mapping[str, Draw] = field(default_factory=dict)  # by pull_uri
    draws: dict[Judged, tuple[int, Draw, bool]] = field(default_factory=dict)  # to repository_id, draw, estimated
    turns: int = 0

    def draw(self, judged: Judged, repository_id: int, estimated: bool = False) -> Draw:
        """Draw a round that has no draw yet, with the odds of its turn and of the rounds before it.

        What an `estimated` lane lets through takes no turn of the others: its odds are the same from the first on.
        """
        before = self.earlier.get(judged.pull_uri, NOT_DRAWN)
        odds = self.rules.estimated if estimated else audit_odds(self.rules, self.drawn_from + self.turns, self.daily)
        now = draw_audit(self.key, judged, odds)
        found = Draw(before.drawn or now.drawn, min(before.odds + (1 - before.odds) * now.odds, 1.0))
        self.turns += not estimated and judged.pull_uri not in self.earlier
        self.draws[judged] = repository_id, found, estimated
        return found
