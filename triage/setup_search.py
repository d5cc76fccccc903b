"""Looking up somebody's repositories for /setup: the worker asks the network, and its answer waits in the queue's file.

What was typed and ticked stays in the session, so that nothing of it is lost where an answer is.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from triage import state
from triage.context import worker_status
from triage.dids import MalformedDid, parse_did, parse_handle
from triage.requests import Request

LOST = "The answer has expired: look again. What you typed and ticked is still here."
MALFORMED = "This is neither a handle such as ana.example.com nor a DID such as did:plc:ewvi7nxzyoun6zhxrhs64oiz."
RECORDED = "This is a recording: everything in it is watched already, and nothing can be added."
KEY = "setup"


@dataclass(slots=True)
class Search:
    """What a maintainer looks for: as typed, the name of the job, and the review mode of each record ticked so far."""

    who: str = ""
    job: str = ""
    ticked: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request) -> "Search":
        """The one of this session, or an empty one."""
        return cls(**request.session.get(KEY, {}))

    def keep(self, request: Request) -> None:
        """Write it to the session."""
        request.session[KEY] = {"who": self.who, "job": self.job, "ticked": self.ticked}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a search stands: `step` while it goes on, then a `problem`, or `found`; nothing where none was begun.

    `found` are the JSON values of `ingest.backfill.owned.Owner`.
    """

    step: str = ""
    problem: str = ""
    found: Mapping[str, Any] | None = None


def account_of(typed: str) -> str | None:
    """The handle or DID that was typed; None where it is neither."""
    text = typed.strip()
    if not text.startswith(("did:plc:", "did:web:")):
        return parse_handle(text)
    try:
        return parse_did(text)
    except MalformedDid:
        return None


def worker_trouble() -> str:
    """Why nothing can be looked up now, "" where the worker runs and stores and this is no recording."""
    if settings.STREAM_CLOCK:
        return RECORDED
    found = state.troubles(worker_status(), time.time(), 0, recorded=False)
    return next((one.sentence for one in found if one.tone == "stopped"), "")


def look_up(who: str) -> str:
    """Have the worker list the repositories of a handle or DID; the name of the job."""
    from ingest.queue import huey
    from ingest.tasks import run_job
    from scoring.review_jobs import FOUND, new_job, reply_key

    job = new_job(time.time())
    key = reply_key(job, FOUND)
    huey.put(key, {"progress": {"step": "Asking the worker."}})
    run_job("find_owned", {"who": who}, key)
    return job


def answer_of(search: Search) -> Answer:
    """What is known of the search now."""
    if not search.job:
        return Answer()
    from ingest.queue import huey
    from scoring.review_jobs import FOUND, reply_key

    told = huey.get(reply_key(search.job, FOUND), peek=True)
    if not isinstance(told, dict):
        return Answer(problem=LOST)
    if "progress" in told:
        trouble = worker_trouble()
        return Answer(problem=trouble) if trouble else Answer(step=told["progress"]["step"])
    return Answer(problem=told.get("problem", ""), found=told.get("done"))
