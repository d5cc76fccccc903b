"""Checks of the values that an operator sets, each with words that show the right form."""

import ipaddress
import re
from collections.abc import Callable
from typing import Any, get_args

from environs import validate as check

from ingest.atproto.syntax import MalformedDid, is_did, parse_account, parse_handle
from scoring.thresholds import Condition

unit = check.Range(min=0, max=1)
inside_unit = check.Range(min=0, max=1, min_inclusive=False, max_inclusive=False)
stream_url = check.URL(schemes={"ws", "wss"}, require_tld=False, error="{input!r} is not a ws:// or wss:// URL")


def is_loopback(bind: str) -> bool:
    """Return True if only this machine can reach a host:port."""
    host = bind.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def each(validate: Callable[[str], object]) -> Callable[[list[str]], None]:
    """Return a check of every text in a list."""

    def refuse(texts: list[str]) -> None:
        for text in texts:
            validate(text)

    return refuse


def read_by(read: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a check that a value can be read, with the text of the ValueError."""

    def refuse(value: object) -> None:
        try:
            read(value)
        except ValueError as problem:
            raise check.ValidationError(str(problem)) from problem

    return refuse


def streams(urls: list[str]) -> None:
    """Refuse a list that names no server, or something else than servers."""
    if not urls:
        raise check.ValidationError("name at least one ws:// or wss:// URL")
    each(stream_url)(urls)


event_stream = check.Regexp(
    r"wss://[A-Za-z0-9.-]{4,253}(:[1-9][0-9]{0,4})?(/[a-z0-9/._-]*)?\Z",
    error="{input!r} is not an address such as wss://knot1.tangled.sh",
)
host_origin = check.Regexp(r"https://[a-z0-9.-]+\Z", error="{input!r} is not an origin such as https://host.example")
# A * would let every site in the world read with tokens that its visitors paste into it.
cors = check.Regexp(
    r"(https://[a-z0-9.-]+(:[0-9]{1,5})?|http://(localhost|127\.0\.0\.1):[0-9]{1,5})\Z",
    error="{input!r} is not an origin such as https://host.example",
)
# The API key is sent to this address.
api = check.Regexp(
    r"(https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9/._-]*)?|http://127\.0\.0\.1:[0-9]{1,5})\Z",
    error="{input!r} is not an address such as https://api.anthropic.com",
)
collector = check.Regexp(
    r"(https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9/._-]*)?)?\Z",
    error="{input!r} is not an address such as https://collector.example/v1/traces",
)
# It becomes a part of an address.
spoken_voice = check.Regexp(
    r"[A-Za-z0-9]{0,64}\Z", error="{input!r} is not the id of a voice such as 21m00Tcm4TlvDq8ikWAM"
)


def receiver(url: str) -> None:
    """Refuse a URL that is neither empty, nor https, nor on this machine: messages name pull requests."""
    path = r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
    match = re.fullmatch(
        rf"(?:https://[A-Za-z0-9.-]+(?::([0-9]{{1,5}}))?|http://127\.0\.0\.1:([0-9]{{1,5}})){path}|", url
    )
    if match is None or not 0 < int(match[1] or match[2] or 443) < 65_536:
        raise check.ValidationError("it is not an address such as https://hooks.example/sunstead")


def operator(name: str) -> None:
    """Refuse a name that is not one short line."""
    if len(name) > 100 or not name.isprintable() or name != name.strip():
        raise check.ValidationError("it is not a name of at most 100 characters on one line")


def contact(address: str) -> None:
    """Refuse an address other than empty, mailto: or https:// in at most 300 characters: pages link to it."""
    mail, page = (
        r"mailto:[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+",
        r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~@/?=&%-]*)?",
    )
    if address and (len(address) > 300 or re.fullmatch(f"{mail}|{page}", address) is None):
        raise check.ValidationError(f"{address[:300]!r} is not an address such as mailto:ana@site.example")


def account(name: str) -> None:
    """Refuse a text that is neither empty nor a handle nor a DID."""
    if name and parse_handle(name) is None:
        try:
            parse_account(name)
        except MalformedDid as problem:
            raise check.ValidationError(f"{name[:100]!r} is not a handle such as ana.example.com or a DID") from problem


def dids(what: str, named: list[str]) -> None:
    """Refuse more than 20 accounts, one twice, and anything else than DIDs: a handle can change hands."""
    if len(named) > 20 or len(set(named)) < len(named):
        raise check.ValidationError(f"name at most 20 {what}, each once")
    if wrong := [did for did in named if not is_did(did)]:
        raise check.ValidationError(f"{wrong[0][:100]!r} is not a DID such as did:plc:ewvi7nxzyoun6zhxrhs64oiz")


def public_origin(origin: str) -> None:
    """Refuse an origin other than "" and a public https name: data servers fetch our client metadata from no other."""
    host = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}"
    reserved = r"(?!.*\.(?:example|invalid|local|localhost|test)\Z)"
    if origin and re.fullmatch(f"https://{reserved}{host}", origin) is None:
        raise check.ValidationError(f"{origin[:300]!r} is not a public origin such as https://sunstead.your-name.org")


def conditions(names: list[str]) -> None:
    names_known = get_args(Condition)
    if wrong := [name for name in names if name not in names_known]:
        raise check.ValidationError(f"{wrong[0]!r} is not one of {', '.join(names_known)}")


def address(text: str) -> None:
    """Refuse a text that is neither empty nor an IP address: a name or * would let anybody forge an address."""
    try:
        ipaddress.ip_address(text or "::")
    except ValueError as problem:
        raise check.ValidationError(f"{text!r} is not an IP address such as 127.0.0.1") from problem


def bind(text: str) -> None:
    host, _, port = text.rpartition(":")
    if text and not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise check.ValidationError(f"{text!r} is not an address and port such as 127.0.0.1:8001")
    address(host.removeprefix("[").removesuffix("]"))
