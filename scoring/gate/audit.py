"""The audit draw: a sample of the fast-laned pull requests that a person checks all the same. Pure.

The draw is a keyed hash of the round: without the key it cannot be told from chance, with the key it can be repeated.
Each round is drawn anew, else somebody who saw that a round was not drawn could send anything as the next one; a pull
request that was drawn once stays drawn, else another round would be a way out. So the odds that are stored with a round
are those of a draw of it or of one before it: an audited outcome weighs 1 / odds.
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
    """Return the odds in [0, 1] of the next pull request, after `drawn_from` others took part, `daily` a day."""
    if drawn_from < rules.first:
        return 1.0
    daily_share = rules.per_day / daily if daily > 0 else float(rules.per_day > 0)
    return min(max(rules.share, daily_share), 1.0)


class RoundKey(NamedTuple):
    """One round of a pull request as a decision names it; "" for a part that is not known."""

    pull_uri: str
    round: int
    record_cid: str
    patch_id: str


def draw_audit(key: bytes, round_key: RoundKey, odds: float) -> Draw:
    """Draw this round with these odds; equal arguments give an equal draw. ValueError without a key."""
    if not key:
        raise ValueError("the audit draw needs a key: without one its outcome could be foretold")
    check_unit("the odds of the audit", odds)
    digest = hmac.digest(key, PURPOSE + "\x00".join(map(str, round_key)).encode(), "sha256")
    return Draw(int.from_bytes(digest[:8], "big") * UNIT < odds, odds)


NOT_DRAWN = Draw(False, 0.0)


@dataclass(slots=True)
class AuditSampler:
    """Draws the rounds of one pass into `draws`, after `drawn_from` pull requests in all and `daily` a day.

    `earlier` is the newest draw of each open pull request that took part before. Its further rounds take no turn from
    another one: else many rounds of one pull request would use up the first turns, which are all audited.
    """

    rules: AuditRules
    key: bytes
    drawn_from: int
    daily: float
    earlier: Mapping[str, Draw] = field(default_factory=dict)  # by pull_uri
    draws: dict[RoundKey, tuple[int, Draw, bool]] = field(
        default_factory=dict
    )  # values: repository_id, draw, estimated
    turns: int = 0

    def draw(self, round_key: RoundKey, repository_id: int, estimated: bool = False) -> Draw:
        """Draw a round that has no draw yet, with the odds of its turn and of the rounds before it.

        A change that an `estimated` lane lets through takes no turn: its odds are the same from the first one on.
        """
        before = self.earlier.get(round_key.pull_uri, NOT_DRAWN)
        odds = self.rules.estimated if estimated else audit_odds(self.rules, self.drawn_from + self.turns, self.daily)
        alone = draw_audit(self.key, round_key, odds)
        draw = Draw(before.drawn or alone.drawn, min(before.odds + (1 - before.odds) * alone.odds, 1.0))
        self.turns += not estimated and round_key.pull_uri not in self.earlier
        self.draws[round_key] = repository_id, draw, estimated
        return draw
