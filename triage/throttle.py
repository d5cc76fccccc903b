"""A fixed-window limit on failed attempts from one address, kept in Django's cache."""

import ipaddress
import math
from contextlib import suppress

from django.core.cache import cache

LIMIT = 20
WINDOW_SECONDS = 300


def network_of(address: str) -> str:
    """What is counted as one address: an IPv4 address, or an IPv6 /64, which is what one subscriber is given."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"  # behind a Unix socket there is no address; such callers share one count
    width = 64 if parsed.version == 6 else 32
    return str(ipaddress.ip_network((parsed, width), strict=False))


def seconds_to_wait(purpose: str, address: str, now: float) -> int:
    """0 where this address may try at `now` (Unix seconds), else the seconds until its window ends."""
    failures = cache.get(_key(purpose, address, now), 0)
    return math.ceil(WINDOW_SECONDS - now % WINDOW_SECONDS) if failures >= LIMIT else 0


def count_failure(purpose: str, address: str, now: float) -> None:
    """Count one failed attempt at `now`; who succeeds is not counted, since many people may share an address."""
    key = _key(purpose, address, now)
    cache.add(key, 0, WINDOW_SECONDS)
    with suppress(ValueError):  # the cache dropped the key between the two calls, under pressure
        cache.incr(key)


def _key(purpose: str, address: str, now: float) -> str:
    return f"throttle:{purpose}:{network_of(address)}:{now // WINDOW_SECONDS:.0f}"
