"""Vouching for a contributor from their page, in one's own name."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from ingest.atproto.syntax import MalformedDid, parse_did
from scoring.queries.read import ContributorPage
from triage.access.oauth.client import TooBusy, acting_place
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, roles_of, signed_in
from triage.access.requests import Request
from triage.presenters import lists
from triage.presenters.vouching import evidence_for
from triage.services import vouching
from triage.services.actions import ActionProblem
from triage.services.own_records import ScopeNeeded
from triage.views.actions import NO_ACCOUNT_TO_SEND, NO_PLACE_TO_SEND, to_grant


@never_cache
@require_POST
def vouch(request: Request, did: str) -> HttpResponse:
    """Vouch for them (`reason`, `evidence`), or with `back` take one's vouch back: sent 10 s from now."""
    if roles_of(signed_in(request)).highest() < Role.MAINTAINER:
        raise PermissionDenied("Maintainers vouch for contributors here.")
    try:
        page = lists.contributor(request, request.snapshot, parse_did(did)) if request.snapshot else None
    except MalformedDid as problem:
        raise Http404(str(problem)) from None
    if page is None:
        raise Http404("Nobody with this DID was seen here.")
    try:
        _send(request, page)
    except ScopeNeeded as needed:
        return to_grant(request, needed.act)
    except ActionProblem as problem:
        messages.warning(request, str(problem))
    return redirect("contributor", did)


def _send(request: Request, page: ContributorPage) -> None:
    session, now = held_session(request), timezone.now()
    if session is None:
        raise ActionProblem(NO_ACCOUNT_TO_SEND)
    did = page.score.person.did
    try:
        with acting_place(session.person.pk) as sender:
            if "back" in request.POST:
                vouching.take_back(session, did, sender, now)
                return
            chosen = vouching.known_evidence(evidence_for(page), request.POST.getlist("evidence"))
            reason = request.POST.get("reason", "")
            vouching.vouch(session, vouching.Vouch(did, reason, chosen), sender, now)
    except (TooBusy, KeyProblem) as problem:
        raise ActionProblem(NO_PLACE_TO_SEND) from problem
