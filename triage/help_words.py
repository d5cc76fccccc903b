"""What each number on the pages means and does not mean, in plain sentences. Pure.

A sentence may name {window}, the days until a merge counts as clean, and {budget}, the share of false approvals in
percent, as the site's settings have them.
"""

from collections.abc import Mapping, Sequence

UNKNOWN = "Unknown is not bad"
HELP: Mapping[str, str] = {
    # The queue.
    "Open": "Pull requests of watched repositories that are neither merged nor closed. Those of people who may push "
    "are in a group of their own and count in no lane.",
    "Flagged": "A person has to look first: a finding in the change, a denounce by a seed, a low score of somebody "
    "with a record, or a check that failed. It says where to look, not that anybody meant harm.",
    "Needs review": "The usual way. Most newcomers are here because too little is known of them: that is no distrust.",
    "Fast lane": "Everything that was asked for is there: trust, record, content, and a threshold that keeps the "
    "budget of {budget} % false approvals. It is an offer to approve; nothing is approved by itself.",
    "Stays clean": "Of 100 such changes, how many would need neither a revert nor a fix of their lines within {window} "
    "days after a merge as sent. It says nothing about taste, usefulness or the person.",
    "95 % interval": "Where the true share lies as far as the record so far can tell. A wide one means few past cases, "
    "not poor work.",
    "Not enough evidence": "No contribution of this person has settled yet, so there is no number. "
    + UNKNOWN
    + ": a person looks, as usual.",
    "Content risk": "From 0 to 100 %, what scanners, and Claude where a repository allows it, found in the change "
    "itself. 0 says that nothing was found, not that nothing is there. It can only lower a lane.",
    "Structural trust": "From 0 to 1, how much of the seeds' trust arrives along vouches. It is as seen from these "
    "seeds: others would see another figure, and 0 means that no path is known, not that anybody is distrusted.",
    "The bars": "How much each fact moved the chance to stay clean up or down, all else as it is. A long bar is "
    "a large effect in this model, no proof that the fact is the cause.",
    # The dashboard.
    "Came in": "Pull requests opened in those seven days in watched repositories; those of people who may push do "
    "not count.",
    "Decided": "Merged, closed or withdrawn in those seven days, whoever did it.",
    "First answer": "The first comment by somebody who may push, else the merge or close. Others do not count.",
    "Unreadable events": "Events that could not be read. They are kept and tried again after an update; strangers can "
    "send as many as they like, and none of them changes a score.",
    "Watched repositories": "Queue, reviews and decisions exist only for watched ones.",
    "Would have changed lane": "How many would be held, or no longer held, for what they contain only because another "
    "reader read them.",
    "Events ignored: not your people": "News about accounts that wrote nothing here. They are not kept.",
    "False approvals, backtest": "Of past pull requests that the fast lane would have taken, how many turned out bad. "
    "People reviewed those too, so the rate without review may be higher.",
    "Vouch graph": "Everybody who wrote a record that reached this site, and the vouches and denounces that stand "
    "among them. Size is no quality: anybody can make accounts, and only what a seed reaches carries trust.",
    "Scores of contributors": "How many people have which chance to stay clean. People without a settled "
    "contribution are counted beside it: they have no number, and none is guessed.",
    "Reliability": "What was told beside what came of it, bin by bin. Near the dashed line the numbers can be taken "
    "as they are; it says nothing about whether they tell good work from bad.",
    "False approvals over time": "Dots: what today's model would have let through then. Squares: what the lane did let "
    "through, by the month in which the outcome was known. What nobody noticed counts as clean; the audit's answers "
    "are unbiased.",
    "First-timers and regulars": "Whether people without a record here wait longer or are sent elsewhere. A difference "
    "may come from what they send; it asks for a look, and proves no fault.",
    "Pull requests": "All that reached this site, open or not, of watched repositories and others.",
    "Open pull requests whose content was read": "By the scanners at least. One that is not read is never fast lane.",
    "Readings by a model in thirty days": "Calls to Claude and what they cost by the price list of this site; the "
    "bill is Anthropic's.",
    "Cost of one: median, 95th percentile": "What half of the readings cost at most, and all but one in twenty.",
    "Read again by a newer prompt or model": "Changes that were read by the newest and by one before it, beside each "
    "other: how much the reader itself matters. It says nothing about the changes.",
    "Their mean content risk before, since": "How strict either reader is on the same changes. Higher is not better.",
    "Gaps in the stream, not filled yet": "Times that nobody listened. Until a backfill has filled one, something may "
    "be missing from any score.",
    "Unknown collections, fields and values": "Shapes of records that this version does not know. They are kept as "
    "they came, and change nothing until they are understood.",
    # A contributor.
    "Vouches": "Who says on the network that they trust this person. A vouch weighs what its author is trusted by the "
    "seeds, so a hundred by strangers weigh nothing, and none at all is unknown, not bad.",
    "Score history": "The chance to stay clean as it was recorded at each moment. It moves when an outcome becomes "
    "known, when a vouch comes or goes, and when another model serves; a step down is no verdict on newer work.",
    "Merged here": "Merges by somebody who may push, or proven by the patch. What the author says of their own work "
    "does not count.",
    "Clean of settled": "Of the merges whose {window} days are over, those that needed neither revert nor fix. What is "
    "younger is not counted either way.",
    "With your vouch": "What structural trust would be with one more vouch by you. It says nothing about whether they "
    "deserve it: vouch only for whom you know.",
    "Trust now": "Structural trust without that vouch. 0 says that no path is known.",
    "Record": "Clean: merged, with no revert or fix in the days after. Still watched: those days are not over. A pull "
    "request that was not merged counts neither way.",
    # The leaderboard.
    "Rank": "The order under the chosen column, as seen from these seeds. It is no prize and no measure of a person.",
    "Merged": "Contributions that were merged, as far as that is proven.",
    "Reverts": "Merged contributions that were taken back in time. A revert is often nobody's fault.",
    "Hops": "Vouches between a seed and this person on the shortest way. Fewer are not better work.",
    # The backtest.
    "AUC": "How often a clean pull request scored above one that was not: 1 always, 0.5 as often as a coin. It says "
    "nothing about where a threshold should lie, and a quarter of few cases jumps.",
    "Brier score": "The mean squared distance of the number from what came; 0 is perfect. It depends on how many are "
    "clean at all: compare models on the same cases only.",
    "Log-loss": "As the Brier score, but a sure number that was wrong costs far more. 0 is perfect.",
    "ECE": "How far the numbers lie beside what came, on the mean over bins. Some is chance: it is too much only above "
    "the range beside it, which calibrated numbers would stay in.",
    "What each budget really gave": "The lane opened month by month with what was known then, and what came of it "
    "beside what was allowed. Past projects: it promises nothing for yours.",
    # The red team.
    "Most lift": "How far a person raised the chance to stay clean with what they can do alone, such as splitting "
    "their work. Those who were tried did nothing wrong.",
    "Attack tables": "What accounts and vouches an attacker needs on today's graph, played in memory. A number that is "
    "high today falls when a seed vouches for somebody careless.",
    # Shadow mode, bulk approval, an incident.
    "Would be fast lane": "Rounds that met every condition while nobody was offered to act on it. Of what is still "
    "open nothing is known yet.",
    "Merged as sent": "People merged exactly that round. It says that the lane agreed with them, not that the change "
    "stayed clean.",
    "May need a fix": "About how many of these will be reverted or fixed by their chances. The worst takes each chance "
    "at the lower end of its interval; more can still happen.",
}
QUEUE = ("Open", "Flagged", "Needs review", "Fast lane", "Stays clean", "95 % interval", "Not enough evidence")
PANEL = ("Stays clean", "95 % interval", "Structural trust", "The bars", "Content risk")
BACKLOG = ("Came in", "Decided")
CALIBRATION = ("Reliability",)
APPROVALS = ("False approvals over time", "False approvals, backtest", "95 % interval")
FARES = ("First answer", "First-timers and regulars")
MODELS = ("AUC", "Brier score", "Log-loss", "ECE")
BUDGETS = ("What each budget really gave", "95 % interval")
SHADOW = ("Would be fast lane", "Merged as sent")
CHARTS = ("Scores of contributors", "Stays clean", "Not enough evidence")
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
)
CONTRIBUTOR = ("Stays clean", "95 % interval", "Not enough evidence", "Structural trust", "The bars")
VOUCHED = ("Vouches", "Score history")
WORTH = ("Merged here", "Clean of settled", "Trust now", "With your vouch")
LEADERBOARD = ("Rank", "Stays clean", "95 % interval", "Merged", "Reverts", "Hops")
PLACES: Mapping[str, Sequence[str]] = {
    "queue": QUEUE,
    "panel": PANEL,
    "backlog": BACKLOG,
    "charts": CHARTS,
    "stored": STORED,
    "contributor": CONTRIBUTOR,
    "vouched": VOUCHED,
    "record": ("Record",),
    "worth": WORTH,
    "leaderboard": LEADERBOARD,
    "reliability": CALIBRATION,
    "approvals": APPROVALS,
    "fares": FARES,
    "order": ("AUC",),
    "models": MODELS,
    "budgets": BUDGETS,
    "lift": ("Most lift",),
    "attacks": ("Attack tables",),
    "shadow": SHADOW,
    "bulk": ("Stays clean", "May need a fix"),
    "incident": ("Stays clean", "95 % interval", "Content risk"),
}


def help_for(place: str, window: int, budget: float) -> tuple[tuple[str, str], ...]:
    """The numbers of one place and their sentences; `budget` is a share in (0, 1)."""
    return tuple((name, HELP[name].format(window=window, budget=f"{100 * budget:g}")) for name in PLACES[place])
