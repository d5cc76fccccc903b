"""Under which address this site is reached, for what is written where no request tells it."""

from django.conf import settings
from django.urls import reverse


def own_origin() -> str:
    """The first origin of CSRF_TRUSTED_ORIGINS, which a proxy serves, else where the web process listens.

    A wildcard address means every address of this machine, of which loopback is one.
    """
    named = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return named[0].rstrip("/") if named else listening_origin()


def listening_origin() -> str:
    """Where the web process of this machine is reached on it."""
    host, _, port = settings.BIND.rpartition(":")
    reachable = "127.0.0.1" if host in ("0.0.0.0", "[::]", "*", "") else host  # noqa: S104 - compared, not bound
    return f"http://{reachable}:{port}"


def pull_address(uri: str) -> str:
    """The address of a pull request's page here."""
    return own_origin() + reverse("pull", args=[uri])
