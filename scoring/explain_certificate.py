"""Explains in plain words why the fast lane is shut, and what it rests on while it is open. Pure."""

from collections.abc import Callable, Mapping

from scoring.figures import bad_interval, budget_percent, count_of, number_of, percent_in_full, things
from scoring.need import Need, say_need
from scoring.verdict import Param

Params = Mapping[str, Param]


def _share(value: Param) -> str:
    return budget_percent(number_of(value))


def _counted(params: Params) -> str:
    return f"{count_of(params['bad']):,} of {count_of(params['count']):,}"


def _say_expired(params: Params) -> str:
    days = count_of(params["days"])
    when = f"{things(days, 'day')} ago" if days else "today"
    return f"The fast lane is shut: its certificate expired {when}, and there is no new one."


def _say_refused(params: Params) -> str:
    threshold, weeks = params["threshold"], params["weeks"]
    need = Need(
        count_of(params["needed"]),
        count_of(params["have"]),
        None if threshold is None else number_of(threshold),
        None if weeks is None else count_of(weeks),
        bool(params["authors"]),
    )
    return f"The fast lane is shut: {say_need(need)}."


def _say_estimated(params: Params) -> str:
    threshold = percent_in_full(number_of(params["t_high"]))
    bad = bad_interval(number_of(params["bad_low"]), number_of(params["bad_high"]))
    return (
        f"The fast lane's threshold {threshold} is estimated: of past pull requests like these {bad} % needed work. "
        "It is not certified."
    )


def _say_estimate_closed(params: Params) -> str:
    if params["by"] == "audit":
        told = f"{_counted(params)} audited pull requests were bad"
    else:
        told = f"{_counted(params)} pull requests that it let through turned out bad"
    return (
        f"The estimated fast lane shut itself in this repository: {told}. The budget is {_share(params['budget'])}. "
        "A person can open it again."
    )


CERTIFICATE_SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "lane_alarm": lambda params: (
        f"The fast lane is shut: {_counted(params)} audited pull requests were bad. "
        f"The budget is {_share(params['budget'])}."
    ),
    "closed_by_outcomes": lambda params: (
        f"The fast lane is shut in this repository: {_counted(params)} of its high-scored pull requests were bad. "
        f"The budget is {_share(params['budget'])}."
    ),
    "threshold_estimated": _say_estimated,
    "estimated_lane_closed": _say_estimate_closed,
    "certificate_expired": _say_expired,
    "certificate_refused": _say_refused,
    "lane_unsteady": lambda params: (
        f"The fast lane is shut: a threshold keeps the budget of {_share(params['budget'])} over the whole window, "
        "but not in every part of it."
    ),
    "too_little_traffic": lambda params: (
        f"The fast lane is shut in this repository: {things(count_of(params['have']), 'pull request')} settled here in "
        f"a year. A lane needs {count_of(params['needed'])}, so that mistakes are noticed."
    ),
}
