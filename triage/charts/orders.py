"""Describe how well each order of the inbox did in the backtest, in a sentence and in tables. Pure."""

from collections.abc import Mapping

from scoring.formatting import percent_interval
from scoring.queries.lanes import share_interval
from scoring.training.summary import ShownLabel
from triage.charts.plot import NOT_SHOWN, Table, percent_words

FEWEST_BAD = 100  # least number of bad ones to compare orders: a 95 % interval of a share is then 20 points wide
ORDERS: Mapping[str, str] = {
    "need": "Most in need of a person (the inbox)",
    "model": "By the chance alone",
    "risk": "By the content risk alone",
    "oldest": "Oldest first",
    "random": "At random",
    "best": "Best possible",
}
COMPARED = ("need", "model", "oldest")  # the orders shown at first


def order_words(label: ShownLabel | None) -> str:
    """Describe in one line how well the queue's order did in the newest backtest, or how to measure it."""
    return (
        order_sentence(label)
        or "The order of the inbox is not measured yet. manage.py backtest measures it on past pull requests."
    )


def order_sentence(label: ShownLabel | None) -> str:
    """Say how many of the bad ones were in the first third of the inbox and of other orders; "" where none was bad."""
    orders = {order.name: order for order in label.orders if order.group == "outside"} if label else {}
    need, oldest, model = (orders.get(name) for name in ("need", "oldest", "model"))
    if not (need and oldest and model) or need.bad is None or need.wait is None or need.first_timer_longest is None:
        return ""
    if need.bad < FEWEST_BAD:
        count_words = "is 1" if need.bad == 1 else f"are {need.bad}"
        return (
            f"To compare orders of the inbox, the backtest needs at least {FEWEST_BAD} past pull requests that were "
            f"refused, reverted or fixed; there {count_words}."
        )
    shares = (f"{percent_words(label.third)} ({_third(label.third, need.bad)})" for label in (need, oldest, model))
    of_inbox, of_oldest, of_model = shares
    return (
        f"Of {need.bad:,} past pull requests that were refused, reverted or fixed, the first third of the inbox would "
        f"have held {of_inbox}; oldest first {of_oldest}, the model alone {of_model}. In brackets: 95 % interval. At "
        f"the recorded verdicts a day half would have waited up to {need.wait:.1f} days for one, no first-timer more "
        f"than {need.first_timer_longest:.1f}."
    )


def bargain_sentence(label: ShownLabel) -> str:
    """Say what the order of the inbox gives up against the chance alone, and what for; "" where none was compared."""
    orders = {order.name: order for order in label.orders if order.group == "outside"}
    need, model = orders.get("need"), orders.get("model")
    if need is None or model is None or need.bad is None or need.bad < FEWEST_BAD:
        return ""
    longest, rival = need.first_timer_longest, model.first_timer_longest
    if longest is None or rival is None or longest >= rival:
        return "Its turns for first-timers bought nothing here: by the chance alone none of them waits longer."
    return (
        f"Played through on past arrivals, no first-timer would have waited over {_days(longest)} in the order of the "
        f"inbox, and {_days(rival)} in that of the chance alone. The price: half would have waited up to "
        f"{_days(need.wait)} instead of {_days(model.wait)}, and the first third would have held "
        f"{percent_words(need.third)} of the bad ones instead of {percent_words(model.third)}."
    )


def _third(share: float, bad: int) -> str:
    low, high = share_interval(round(share * bad), bad)
    return percent_interval(low, high)


def few_orders_table(table: Table) -> Table:
    """Return the inbox and its two rivals of all orders, with their first third and waits."""
    shown, columns = [ORDERS[name] for name in COMPARED], (0, 2, 4, 5)
    rows = tuple(tuple(row[column] for column in columns) for row in table.rows if row[0] in shown)
    return Table(tuple(table.columns[column] for column in columns), rows)


def orders_table(label: ShownLabel) -> Table:
    """Return the orders of the inbox, the served one first."""
    everybody = {order.name: order.third for order in label.orders if order.group == "all"}
    rows = tuple(
        (
            ORDERS[order.name],
            percent_words(order.tenth),
            percent_words(order.third),
            percent_words(everybody[order.name]) if order.name in everybody else NOT_SHOWN,
            _days(order.wait),
            _days(order.first_timer_longest),
        )
        for name in ORDERS
        for order in label.orders
        if (order.group, order.name) == ("outside", name) and (order.bad is None or order.bad >= FEWEST_BAD)
    )
    heads = ("First tenth", "First third", "First third, all", "Half wait up to", "Longest wait of a first-timer")
    return Table(("Order", *heads), rows)


def _days(days: float | None) -> str:
    return NOT_SHOWN if days is None else f"{days:,.1f} days"
