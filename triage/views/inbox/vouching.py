"""Vouching for a contributor in one's own name, from every page that offers it."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from ingest.atproto.syntax import MalformedDid, parse_did
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.access.oauth.client import TooBusy, acting_place
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, roles_of, signed_in
from triage.access.requests import Request
from triage.access.sign_in import safe_next
from triage.services.actions import ActionProblem
from triage.services.own_name import vouching
from triage.services.own_name.own_records import ScopeNeeded
from triage.views.inbox.actions import NO_ACCOUNT_TO_SEND, NO_PLACE_TO_SEND, to_grant


@never_cache
@require_POST
def vouch(request: Request, did: str) -> HttpResponse:
    """Vouch for them (`reason`, `evidence`), or with `back` take one's vouch back: sent 10 s from now."""
    if roles_of(signed_in(request)).highest() < Role.MAINTAINER:
        raise PermissionDenied("Maintainers vouch for contributors here.")
    try:
        subject = parse_did(did)
    except MalformedDid as problem:
        raise Http404(str(problem)) from None
    snapshot = request.snapshot
    if snapshot is None or not read.persons(snapshot, [subject]) or read.hidden_because(snapshot, subject):
        raise Http404("Nobody with this DID is shown here.")
    try:
        _send(request, snapshot, subject)
    except ScopeNeeded as needed:
        return to_grant(request, needed.act)
    except ActionProblem as problem:
        messages.warning(request, str(problem))
    return HttpResponseRedirect(safe_next(request))


def _send(request: Request, snapshot: Snapshot, did: str) -> None:
    session, now = held_session(request), timezone.now()
    if session is None:
        raise ActionProblem(NO_ACCOUNT_TO_SEND)
    try:
        with acting_place(session.person.pk) as sender:
            if "back" in request.POST:
                vouching.take_back(session, did, sender, timezone.now)
                return
            offered, chosen = vouching.work_of(snapshot, [did], now).get(did, []), request.POST.getlist("evidence")
            evidence = tuple(work.uri for work in offered if work.uri in chosen)
            vouching.vouch(session, vouching.Vouch(did, request.POST.get("reason", ""), evidence), sender, timezone.now)
    except (TooBusy, KeyProblem) as problem:
        raise ActionProblem(NO_PLACE_TO_SEND) from problem
