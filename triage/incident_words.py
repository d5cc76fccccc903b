"""Incidents in words: which rule would have held a change, what others share with it, what is left of the budget. Pure.

Every figure here is for maintainers alone: it says what a change must look like to be fast-laned.
"""

from collections.abc import Callable, Mapping

from scoring.figures import (
    bad_percent,
    budget_percent,
    number_of,
    percent,
    percent_in_full,
    risk_percent,
    things,
    trust_bound,
    trust_figure,
    visible_name,
)
from scoring.read import BudgetState, Shared
from scoring.tightened import Tightened
from scoring.verdict import Param

SHARE_WORDS: Mapping[Shared, str] = {
    "author": "same author",
    "voucher": "same voucher",
    "paths": "same files",
    "model": "same model",
}
CONDITION_WORDS: Mapping[str, str] = {
    "certificate": "a certified threshold",
    "verdict": "a verdict on its content",
    "coverage": "a full scan of it",
    "newest_round": "a judgement of the latest round",
    "account_changes": "no recent change of an account behind it",
    "silence": "an author without a long absence",
    "never_fast_paths": "no file that always needs a person",
    "enrichment": "the end of all look-ups",
    "tier": "an attestation in the sensitive tier",
    "audit": "the audit draw",
}


def tightened_words(one: Tightened) -> str:
    """One rule that would have held it, as a clause."""
    return WORDS[one.rule](one.before, one.after)


def budget_words(state: BudgetState) -> str:
    """How many approvals in the fast lane turned out bad, against what may."""
    if not state.approved:
        return "0 approvals of this fast lane are valid or merged so far, so nothing counts against the budget."
    rate = bad_percent(state.bad / state.approved)
    against = "above" if state.is_spent else "within"
    allowed = int(state.budget * state.approved)
    return (
        f"{state.bad:,} of {things(state.approved, 'approval')} in this repository's fast lane turned out bad so far: "
        f"{rate}, {against} the budget of {budget_percent(state.budget)}, which allows {allowed:,} of them."
    )


def _was(before: Param, say: Callable[[float], str]) -> str:
    return "" if before is None else f" (it was {say(number_of(before))})"


WORDS: Mapping[str, Callable[[Param, Param], str]] = {
    "t_high": lambda before, after: (
        f"a fast lane that starts above its {percent(number_of(after))}{_was(before, percent_in_full)}"
    ),
    "r_low": lambda before, after: (
        f"a limit of content risk below its {risk_percent(number_of(after))}{_was(before, percent_in_full)}"
    ),
    "trust": lambda before, after: (
        f"more structural trust than its {trust_figure(number_of(after))}{_was(before, trust_bound)}"
    ),
    "two_ways": lambda before, after: "a second, independent path from the seeds",
    "account_change_days": lambda before, after: (
        f"{things(int(number_of(after)), 'day')} since the last change of an account behind it (it was {before})"
    ),
    "silent_days": lambda before, after: (
        f"counting {things(int(number_of(after)), 'day')} without activity of its author as silence (it was {before})"
    ),
    "condition": lambda before, after: f"asking {CONDITION_WORDS.get(str(after), 'for more')}, which is off here",
    "never_fast_paths": lambda before, after: f"{visible_name(after)} in the list “Always need a person”",
    "tier": lambda before, after: "the sensitive tier, which needs an attestation",
    "audit": lambda before, after: (
        "an audit of every change in the fast lane"
        + ("" if before is None else f" (its odds were {100 * number_of(before):.3g} %)")
    ),
}
