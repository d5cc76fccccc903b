"""The addresses of the site, and an operation that answers nothing behind the same middleware, token and throttle."""

from typing import Annotated

from ninja import Router
from ninja.params.functions import Path

from triage.access.requests import Request
from triage.api import api

router = Router()


@router.get("/empty/{did}", response={200: dict[str, str]}, operation_id="get_nothing")
def get_nothing(request: Request, did: Annotated[str, Path()]) -> dict[str, str]:
    """Nothing."""
    return {}


api.add_router("", router)  # before the addresses are read: django-ninja takes none afterwards
from trustsite.urls import urlpatterns  # noqa: E402

__all__ = ["urlpatterns"]
