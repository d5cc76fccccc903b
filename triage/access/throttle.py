"""Fixed-window limits in Django's cache: on failed attempts by address and by account, and on all requests."""

import ipaddress
import math
from contextlib import suppress

from django.core.cache import cache

LIMIT = 20
ACCOUNT_LIMIT = 100  # from all addresses together: having many of them makes guessing no faster
WINDOW_SECONDS = 300
MINUTE, HOUR = 60, 3600  # seconds


def network_of(address: str, is_wide: bool = False) -> str:
    """Return what counts as one address: an IPv4 address, or an IPv6 /64, which one subscriber gets.

    `is_wide`: what one tenant gets as easily, an IPv4 /24 or an IPv6 /48, for what few people do at once.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"  # behind a Unix socket there is no address; such callers share one count
    widths = (48, 24) if is_wide else (64, 32)
    return str(ipaddress.ip_network((parsed, widths[parsed.version == 4]), strict=False))


def seconds_to_wait(purpose: str, address: str, now: float) -> int:
    """Return 0 where this address may try at `now` (Unix seconds), else the seconds until its window ends."""
    return _wait(_key(purpose, network_of(address), now), LIMIT, now)


def count_failure(purpose: str, address: str, now: float) -> None:
    """Count one failed attempt at `now`; successes are not counted, since many people may share an address."""
    _count(_key(purpose, network_of(address), now))


def seconds_to_wait_for(account: str, now: float) -> int:
    """Return 0 where this account's password may be tried at `now`, from any address, else the seconds to wait."""
    return _wait(_key("account", account, now), ACCOUNT_LIMIT, now)


def count_failure_for(account: str, now: float) -> None:
    """Count one wrong password for this account at `now`."""
    _count(_key("account", account, now))


def count(purpose: str, whom: str, seconds: int, now: float) -> int:
    """Count one request of `whom` at `now` (Unix seconds); return the number in this window of `seconds`."""
    return _count(_key(purpose, whom, now, seconds), seconds)


def seconds_left(seconds: int, now: float) -> int:
    """Return the seconds until the window of `seconds` that contains `now` ends: 1 to `seconds`."""
    return math.ceil(seconds - now % seconds)


def _wait(key: str, limit: int, now: float) -> int:
    return seconds_left(WINDOW_SECONDS, now) if cache.get(key, 0) >= limit else 0


def _count(key: str, seconds: int = WINDOW_SECONDS) -> int:
    with suppress(ValueError):  # the first in this window
        return cache.incr(key)
    cache.add(key, 0, seconds)
    with suppress(ValueError):  # the cache dropped the key between the two calls, under pressure
        return cache.incr(key)
    return 1


def _key(purpose: str, whom: str, now: float, seconds: int = WINDOW_SECONDS) -> str:
    return f"throttle:{purpose}:{whom}:{now // seconds:.0f}"
