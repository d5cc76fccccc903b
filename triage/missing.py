"""What to say where a figure does not exist yet: what is missing, what makes it, and how long it may take. Pure."""

from scoring.figures import things
from scoring.learning.certificate import ToldNeed
from scoring.learning.shown_model import ShownLane, ShownModel
from scoring.need import Need, say_need
from scoring.read import ContributorScore, TrainingNeed
from scoring.rules import items_needed

AT_ONCE = "manage.py train does it at once."


def next_training(need: TrainingNeed) -> str:
    """Say when the worker trains next."""
    if not need.days:
        return f"The worker does not train here; {AT_ONCE}"
    if need.due is None:
        return f"The worker trains within the hour; {AT_ONCE}"
    return f"The worker trains next on {need.due.day} {need.due:%b %Y} after {need.due:%H:%M} UTC; {AT_ONCE}"


def training_words(need: TrainingNeed) -> str:
    """Say how much has settled for a model, how much it takes to beat the plain rate, and when the worker trains."""
    return (
        f"{things(need.cases, 'settled pull request')} by {things(need.authors, 'author')} so far; a learned model "
        f"needs {need.fewest_cases:,} by {need.fewest_authors:,}, each opened at least {need.quiet_days:,} days ago. "
        f"{next_training(need)}"
    )


def no_reliability(name: str | None, model: ShownModel | None, need: TrainingNeed) -> str:
    """Why there is no reliability curve; "" where there is one."""
    if name is None:
        return (
            "No model is used yet: the chance is a shrunk rate of each person's own record. A curve needs a "
            f"model, and pull requests that settled after its training. {training_words(need)}"
        )
    if model is None:
        return f"The model has no figures for this page, or its file is damaged. {next_training(need)}"
    if not model.change.bins:
        return (
            "0 settled pull requests have tested the model so far. A merged one settles when its window is over; "
            "others settle when they are closed, or after 180 days."
        )
    return ""


def no_lifts(name: str | None, need: TrainingNeed) -> str:
    """Why nothing was measured of what people could lift their own score by."""
    if name is None:
        told = "No model is used yet. The score counts settled pull requests, and nobody settles those alone."
        return f"{told} {training_words(need)}"
    return f"The model was not tried for this, or its file is damaged. {next_training(need)}"


def fewest_words(budget: float, delta: float, a_year: int) -> str:
    """How many settled pull requests a budget asks for at least, and how long they take where `a_year` are decided."""
    fewest = items_needed(budget, delta)
    told = f"At least {fewest:,} settled pull requests, all clean, are needed for this budget"
    if not a_year:
        return f"{told}; in the last year none was merged or closed here."
    weeks = things(max(1, round(52 * fewest / a_year)), "week")
    return f"{told}; at the pace of the last year that takes at least {weeks}."


def no_false_approvals(name: str | None, model: ShownModel | None, exact: bool, fewest: str, need: TrainingNeed) -> str:
    """Why there is no rate of false approvals; "" where there is one. What is still needed is for maintainers."""
    if name is None:
        needed_too = f" {fewest}" if exact and fewest else ""
        told = "No model is used yet, so no pull request has a score from its opening."
        return f"{told} {training_words(need)}{needed_too}"
    if model is None or model.lane is None:
        return f"No threshold was tried for the current model. {next_training(need)}"
    if model.lane.months:
        return ""
    return needed(model.lane) if exact else "Nothing is certified yet: too few pull requests have settled."


def no_live(window: int) -> str:
    """Why no outcome of the lane itself stands beside the backtest, `window` days after a merge."""
    return (
        "Live: 0 outcomes of the fast lane are known so far. One counts "
        f"{window} days after its merge, or when it is refused, reverted or fixed."
    )


def needed(lane: ShownLane) -> str:
    """What an attempt that failed lacked, as a sentence; "" for one that did not fail."""
    if lane.certified:
        return ""
    if lane.need is None:
        return "Nothing is certified: the lane did not keep its budget in every part of the last year."
    return f"Nothing is certified: {say_need(_need(lane.need))}."


def _need(told: ToldNeed) -> Need:
    return Need(told.needed, told.have, told.threshold, told.weeks, told.authors)


def no_vouches(known: ContributorScore | None) -> str:
    """Why no vouch is proposed to somebody, and what would change that."""
    if known is None:
        return (
            "No record of yours has reached this site, so no trust flows through you. Sign in with the DID that "
            "vouches, or vouch for somebody on Tangled first."
        )
    if known.structural_trust == 0 and known.distance is None:
        return (
            "No trust reaches you yet, so your vouch would help nobody. A vouch by a seed changes that. "
            "An admin can also make you a seed in the repository's settings."
        )
    return (
        "0 people to propose: everybody with settled work here is trusted already, or your vouch would not help. "
        "Each scoring updates this list."
    )
