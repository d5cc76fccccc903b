"""A fixed-window limit on attempts from one address, kept in Django's cache."""

import ipaddress
import math

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


def count_attempt(purpose: str, address: str, now: float) -> int:
    """Count one attempt at `now` (Unix seconds); 0 where it may go on, else the seconds until the window ends."""
    window, inside = divmod(now, WINDOW_SECONDS)
    key = f"throttle:{purpose}:{network_of(address)}:{window:.0f}"
    cache.add(key, 0, WINDOW_SECONDS)
    left = math.ceil(WINDOW_SECONDS - inside)
    try:
        return left if cache.incr(key) > LIMIT else 0
    except ValueError:  # the cache dropped the key between the two calls, under pressure
        return 0
