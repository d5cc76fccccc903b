"""Explains what each number on the pages means and does not mean, in plain sentences. Pure.

A sentence may name {window}, the days until a merge counts as clean, and {budget}, the share of bad ones in the fast
lane in percent, as the site's settings have them.
"""

from collections.abc import Mapping, Sequence

UNKNOWN = "Unknown is not bad"
HELP: Mapping[str, str] = {
    # The inbox.
    "Open": "Pull requests of watched repositories that are neither merged nor closed. Pull requests by people with "
    "push access are in their own group and in no lane.",
    "Flagged": "A person must look first: a finding, a warning by a seed, a low chance or a failed check. It says "
    "where to look, not that anybody means harm.",
    "Needs review": "The usual way. Most newcomers are here because little is known about them. That is not distrust.",
    "Fast lane": "Trust, record and content meet all conditions, and the threshold keeps the budget of {budget} % bad "
    "ones. It is an offer: a person still approves.",
    "Stays clean": "Of 100 such pull requests, how many need neither a revert nor a fix within {window} days after the "
    "merge. It says nothing about taste, usefulness or the person.",
    "95 % interval": "The true share lies in this range, as far as the record shows. A wide range means few past "
    "cases, not poor work.",
    "The marks": "The stroke is the chance, the bar its interval, the triangle where the fast lane starts; only "
    "maintainers see the triangle. A dashed ring is no score yet, a die a random audit.",
    "No score yet": "This person has no settled pull request, so there is no number. "
    + UNKNOWN
    + ": a person looks, as "
    "usual.",
    "Content risk": "What the scanners found in the change, and Claude where a repository allows it. 0 % means "
    "nothing was found, not that nothing is there. It can only lower a lane.",
    "Structural trust": "From 0 to 1: how much trust of the seeds arrives along vouches. Other seeds would give "
    "another figure. 0 means that no path is known, not distrust.",
    "The bars": "How much each fact moved the chance up or down. A long bar is a large effect in this model, not proof "
    "of a cause.",
    # The dashboard.
    "Came in": "Pull requests opened in those seven days in watched repositories. Those by people with push access are "
    "not counted.",
    "Decided": "Merged, closed or withdrawn in those seven days, by anybody.",
    "First answer": "The first comment by somebody with push access, or the merge or close. Other comments do not "
    "count.",
    "Unreadable events": "Events that this version cannot read. It keeps them and tries again after an update. They "
    "never change a score.",
    "Watched repositories": "Only these have an inbox, reviews and decisions.",
    "Would have changed lane": "Pull requests that change lane only because another reader read them.",
    "Events ignored: not your people": "News about accounts that wrote nothing here. They are not kept.",
    "Bad ones the lane let through, backtest": "Past pull requests that the fast lane would have taken, and how many "
    "were bad. People reviewed those too, so without review the share may be higher.",
    "Vouch graph": "Everybody with a record on this site, and the current vouches and warnings among them. Size does "
    "not count: only what a seed reaches carries trust.",
    "Scores of contributors": "How many people have which chance. People without a settled pull request are counted "
    "beside it; they have no number.",
    "Reliability": "The chance we gave, beside the result, bin by bin. Near the dashed line the numbers can be "
    "trusted. It does not say whether they tell good work from bad.",
    "Bad ones the lane let through": "Dots: what today's model would have let through then. Squares: what the lane did "
    "let through, by month of the outcome. A fault that nobody noticed counts as clean; audits have no such bias.",
    "Limit": "The share of bad ones that a lane may let through. It shuts itself once enough have settled to show more "
    "than that. A certified lane has your budget as its limit, an estimated one the upper end of its estimate.",
    "First-timers and regulars": "Waiting: had anything of theirs been decided here before they opened it? Lanes: has "
    "anything of theirs settled here yet? A difference may come from what they send; it is worth a look.",
    "Pull requests": "All that reached this site, open or not, from watched and other repositories.",
    "Open pull requests whose content was read": "Read at least by the scanners. Others can never be fast lane.",
    "Readings by a model in thirty days": "Calls to Claude and their cost by this site's price list. Anthropic's bill "
    "may differ.",
    "Cost of one: median, 95th percentile": "Half of the readings cost at most the first; 19 of 20 at most the second.",
    "Read again by a newer prompt or model": "Pull requests that the newest reader and an older one both read. It "
    "shows how much the reader matters.",
    "Their mean content risk before, since": "How strict each reader is on the same pull requests. Higher is not "
    "better.",
    "Gaps in the stream, not filled yet": "Times without a connection to the stream. Until a backfill fills a gap, a "
    "score may miss something.",
    "Unknown collections, fields and values": "Shapes of records that this version does not know. It keeps them; they "
    "change nothing yet.",
    # A contributor.
    "Vouches": "People who say on the network that they trust this person. A vouch weighs as much as the seeds trust "
    "its author. A hundred by strangers weigh nothing; none at all is unknown, not bad.",
    "Score history": "The chance as it was at each moment. Outcomes, vouches and new models move it. A step down is "
    "not a verdict on newer work.",
    "Merged here": "Merges by somebody with push access, or proven by the patch. The author's own word does not count.",
    "Clean of settled": "Merges older than {window} days that needed neither a revert nor a fix. Younger ones do not "
    "count yet.",
    "With your vouch": "Structural trust with one more vouch by you. It does not say that they deserve it: vouch only "
    "for people you know.",
    "Trust now": "Structural trust without that vouch. 0 means that no path is known.",
    "Record": "Clean: merged, without a revert or fix in the days after. Not counted yet: those days are not over. A "
    "pull request that was not merged does not count.",
    # The leaderboard.
    "Rank": "The order by the chosen column, as these seeds see it. It does not measure a person.",
    "Merged": "Merged pull requests, as far as that is proven.",
    "Reverts": "Merged pull requests that were reverted in time. A revert is often nobody's fault.",
    "Steps": "Vouches between a seed and this person on the shortest path. Fewer does not mean better work.",
    # The backtest.
    "Pairs in the right order": "Of 100 pairs of a clean and a bad pull request, in how many the clean one scored "
    "higher: 100 is perfect, 50 is chance.",
    "First tenth, first third": "All of these pull requests in one list: the share of the bad ones at its beginning. "
    "Waits are played with the verdicts a day that were really given.",
    "Budget": "The lane as it would have opened month by month with the knowledge of that time. Estimated: the best "
    "guess. Certified: tested first, so it opens later. Past projects promise nothing for yours.",
    # The attack simulations.
    "Largest rise": "The most by which one person raised the chance alone, for example by splitting work, tried on the "
    "newest five years. These people did nothing wrong. No pull request gets more than its author has.",
    # A lane that only watches, bulk approval, an incident.
    "Would be fast lane": "Rounds that met every condition while the lane was shut. Open ones have no result yet.",
    "Merged as sent": "People merged exactly that round. The lane agreed with them; the pull request may still need a "
    "fix.",
    "May need a fix": "About how many of these will be reverted or fixed, going by their chances. The worst takes each "
    "chance at the lower end of its interval; more can still happen.",
}
QUEUE = ("Open", "Flagged", "Needs review", "Fast lane", "Stays clean", "95 % interval", "The marks", "No score yet")
PANEL = ("Stays clean", "95 % interval", "Structural trust", "The bars", "Content risk")
BACKLOG = ("Came in", "Decided")
CALIBRATION = ("Reliability",)
APPROVALS = ("Limit", "Bad ones the lane let through", "Bad ones the lane let through, backtest", "95 % interval")
FARES = ("First answer", "First-timers and regulars")
BUDGETS = ("Budget", "95 % interval")
SHADOW = ("Would be fast lane", "Merged as sent")
STORED = (
    "Pull requests",
    "Vouch graph",
    "Watched repositories",
    "Open pull requests whose content was read",
    "Readings by a model in thirty days",
    "Cost of one: median, 95th percentile",
    "Read again by a newer prompt or model",
    "Their mean content risk before, since",
    "Would have changed lane",
    "Gaps in the stream, not filled yet",
    "Unknown collections, fields and values",
    "Unreadable events",
    "Events ignored: not your people",
    "Scores of contributors",
)
CONTRIBUTOR = ("Stays clean", "95 % interval", "No score yet", "Structural trust", "The bars")
VOUCHED = ("Vouches", "Score history")
WORTH = ("Merged here", "Clean of settled", "Trust now", "With your vouch")
LEADERBOARD = ("Rank", "Stays clean", "95 % interval", "Merged", "Reverts", "Steps")
PLACES: Mapping[str, Sequence[str]] = {
    "queue": QUEUE,
    "panel": PANEL,
    "backlog": BACKLOG,
    "stored": STORED,
    "contributor": CONTRIBUTOR,
    "vouched": VOUCHED,
    "record": ("Record",),
    "worth": WORTH,
    "leaderboard": LEADERBOARD,
    "reliability": CALIBRATION,
    "approvals": APPROVALS,
    "fares": FARES,
    "order": ("First tenth, first third",),
    "pairs": ("Pairs in the right order",),
    "budgets": BUDGETS,
    "lift": ("Largest rise",),
    "shadow": SHADOW,
    "bulk": ("Stays clean", "May need a fix"),
    "incident": ("Stays clean", "95 % interval", "Content risk"),
}


def help_for(place: str, window: int, budget: float) -> tuple[tuple[str, str], ...]:
    """The numbers of one place and their sentences; `budget` is a share in (0, 1)."""
    return tuple((name, HELP[name].format(window=window, budget=f"{100 * budget:g}")) for name in PLACES[place])
