"""TXT records of names that strangers choose, asked of the machine's own resolver and bounded in time and number."""

from collections.abc import Callable
from functools import cache

import dns.exception
import dns.resolver

from ingest.plain_words import FetchProblem
from ingest.wire import quoted

TEXT_SECONDS = 3.0  # the whole question, with every repetition
TEXTS = 50  # records of one name that are read
TEXT_LIMIT = 2_500  # characters of one record: "did=" and the longest DID

Texts = Callable[[str], list[str]]


def texts_of(name: str, resolver: dns.resolver.Resolver | None = None) -> list[str]:
    """The TXT records of a name, empty where it has none. Raises FetchProblem with `retry` where nobody could say.

    A record's strings are joined, as a text of over 255 bytes needs several.
    """
    try:
        asked = resolver or _system()
        answer = asked.resolve(f"{name}.", "TXT", lifetime=TEXT_SECONDS, search=False, raise_on_no_answer=False)
    except (dns.resolver.NXDOMAIN, dns.resolver.YXDOMAIN):
        return []
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise FetchProblem(
            f"TXT of {quoted(name)} could not be looked up ({type(error).__name__})", retry=True
        ) from None
    records = [b"".join(record.strings) for record in list(answer.rrset or ())[:TEXTS]]
    return [record.decode("utf-8", "replace")[:TEXT_LIMIT] for record in records]


@cache
def _system() -> dns.resolver.Resolver:
    """The resolver that the machine is configured with; DNSException where it has none."""
    return dns.resolver.Resolver()
