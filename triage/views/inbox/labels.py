"""The DID document with which this site labels: a did:web, so its name is the site's own."""

import logging

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from ingest.labels import signing
from ingest.labels.keys import LabelKeyProblem, read_key
from triage.access.problems import NOTHING, ApiProblem, problem_response

log = logging.getLogger(__name__)


@require_safe
def did_document(request: HttpRequest) -> HttpResponse:
    """Answer with the key of the labels and where they are served, the same for everybody; 404 where none are."""
    if not settings.LABELER_BIND:
        return problem_response(ApiProblem(404, "This site serves no labels: LABELER_BIND is not set."))
    try:
        public = read_key(settings.LABEL_KEY).public
    except LabelKeyProblem as problem:
        log.error("the key of the labels cannot be published: %s", problem)
        return problem_response(ApiProblem(503, "This site cannot read its key just now. Tell its operator."))
    response = JsonResponse(signing.did_document(settings.PUBLIC_ORIGIN, public))
    response["Cache-Control"], response["Content-Security-Policy"] = "public, max-age=300", NOTHING
    response["Access-Control-Allow-Origin"] = "*"  # public, and no answer depends on who asks
    return response
