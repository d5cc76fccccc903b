"""Requests are counted by route and status, whatever is asked for, and each has a name that its log lines carry."""

import re

import pytest
from django.conf import settings as configured
from django.test import Client
from prometheus_client import generate_latest
from pytest_django import Settings

from tests.ingest.stream.frames import MARA
from triage.measured import MEASURES

pytestmark = pytest.mark.django_db


def counted() -> dict[tuple[str, str], float]:
    """Requests by route and status."""
    told = re.findall(r'^sunstead_http_requests_total\{route="(.*?)",status="(.*?)"\} (\S+)', exposed(), re.M)
    return {(route, status): float(value) for route, status, value in told}


def exposed() -> str:
    return generate_latest(MEASURES).decode()


@pytest.mark.parametrize(
    ("path", "route", "status"),
    [
        ("/about", "about", "200"),
        ("/metrics", "get_metrics", "503"),
        ("/health", "get_health", "503"),
        (f"/score/{MARA}", "get_score", "503"),
        ("/nowhere", "none", "404"),
        (f"{configured.STATIC_URL}css/nothing.css", "static", "404"),
        ("/sign-in/made-up", "sign_in_link", "403"),
    ],
)
def test_a_request_is_counted_and_timed_by_the_name_of_its_route(
    client: Client, settings: Settings, path: str, route: str, status: str
) -> None:
    settings.PUBLIC_READ = True
    before = counted().get((route, status), 0.0)
    assert client.get(path).status_code == int(status)
    assert counted()[route, status] == before + 1
    assert f'sunstead_http_request_duration_seconds_bucket{{le="+Inf",route="{route}"}}' in exposed()


def test_whatever_strangers_ask_for_makes_no_new_series(client: Client) -> None:
    client.get("/nowhere")
    before = len(exposed().splitlines())
    for number in range(20):
        client.generic(f"ODD{number}", f"/nowhere/{number}?{MARA}={number}", HTTP_HOST="127.0.0.1")
    assert len(exposed().splitlines()) == before
    assert MARA not in exposed()


def test_each_answer_carries_a_name_of_its_own_and_none_that_came_with_the_request(client: Client) -> None:
    names = {client.get("/about", headers={"x-request-id": "mine"})["X-Request-Id"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}", name) for name in names)
