"""Send waiting messages to the webhook's receiver and to browsers, each until it is accepted or its time is over.

Delivery is at least once: a kill between an answer and its note sends the same message again.
"""

import logging
import secrets
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import QuerySet

from ingest.errors import FetchProblem
from triage.models import Delivery

KEPT = timedelta(days=7)  # how long a finished delivery is kept
AT_ONCE = 100  # tries of one run
RUN_SECONDS = 30.0  # after this a run begins no further try
RETRY_SECONDS = (60, 300, 900, 3_600, 3 * 3_600, 6 * 3_600)  # then the last one repeats
Now = Callable[[], datetime]
# Tries one message. Returns why it was not accepted ("": it was), and the least delay in seconds that is asked for.
# Raises FetchProblem where this process is stopping: that is not a try.
Send = Callable[[Delivery, datetime], tuple[str, float]]
log = logging.getLogger(__name__)


def send_waiting(rows: QuerySet, send: Send, now: Now, most_failures: int = AT_ONCE) -> int:
    """Send what is due of these, longest due first; return how many were accepted.

    `most_failures` end the run: those that fail alike would only fail again, and the next run comes within a minute.
    """
    Delivery.objects.filter(due_at=None, made_at__lt=now() - KEPT).delete()
    ends, accepted, failed = time.monotonic() + RUN_SECONDS, 0, 0
    for delivery in rows.filter(due_at__lte=now()).order_by("due_at", "pk")[:AT_ONCE]:
        if failed >= most_failures or time.monotonic() >= ends:
            break
        try:
            problem, after = send(delivery, now())
        except FetchProblem as stopped:
            log.info("%s", stopped)
            break
        failed, accepted = failed + bool(problem), accepted + (not problem)
        _keep(delivery, problem, after, now())
    return accepted


def new_id() -> str:
    """Return a unique key of a message, which is a webhook-id too."""
    return f"msg_{secrets.token_hex(16)}"


def _keep(delivery: Delivery, problem: str, after: float, now: datetime) -> None:
    """Note the result of a try and the time of the next: none once accepted, nor when the message has ended."""
    tries = delivery.tries + 1
    fields = {"tries": tries, "problem": problem, "due_at": None}
    if not problem:
        fields["delivered_at"] = now
    elif now >= delivery.ends_at:
        fields["given_up_at"] = now
        log.warning("%s was given up after %d tries: %s", f"{delivery.event} {delivery.key}", tries, problem)
    else:
        wait = max(RETRY_SECONDS[min(tries, len(RETRY_SECONDS)) - 1], after)
        fields["due_at"] = min(now + timedelta(seconds=wait), delivery.ends_at)
    Delivery.objects.filter(pk=delivery.pk).update(**fields)
