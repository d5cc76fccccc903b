"""Secrets of signing in and acting, overheard on their way, and the search for them in all that a site keeps."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import duckdb
from django.test import override_settings

from tests.peers.network import PDS_HOST, Exchange
from triage.access.oauth.encryption import unseal

SENT = ("code", "state", "code_verifier", "refresh_token", "client_assertion", "token")
ANSWERED = ("access_token", "refresh_token", "token")
HEADERS = ("authorization", "dpop")
Secret = tuple[str, str]  # its name and its value
TABLES = "select database_name, schema_name, table_name from duckdb_tables() where not internal"


def secrets_sent(exchanges: Iterable[Exchange]) -> Iterator[Secret]:
    """What nobody else may learn of what the site, the person's server, the knot and the browser told each other."""
    for one in exchanges:
        headers = {name.lower(): value for name, value in one.headers.items()}
        yield from ((name, headers[name].rpartition(" ")[2]) for name in HEADERS if name in headers)
        is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        pairs = parse_qsl(urlsplit(one.path).query) + (parse_qsl(one.body.decode()) if is_form else [])
        yield from ((name, value) for name, value in pairs if name in SENT)
        if one.host == PDS_HOST and one.answer.startswith(b"{"):
            answer = json.loads(one.answer)
            yield from ((name, answer[name]) for name in ANSWERED if name in answer)


def keys_of(root: Path) -> Iterator[Secret]:
    """The private keys of a site and, decrypted, what the accounts hold of its sessions."""
    for key in json.loads((root / "keys" / "oauth_client.json").read_bytes())["keys"]:
        yield "the site's key", str(json.loads(key["jwk"])["d"])
    sealing = (root / "keys" / "oauth").read_text()
    yield "the key of the sealed columns", sealing
    with closing(sqlite3.connect(root / "web.sqlite3")) as web, override_settings(OAUTH_KEY=sealing):
        for number, sealed in web.execute("select id, sealed from triage_oauthsession"):
            secrets = unseal(UUID(number), sealed)
            yield "a session's key", str(json.loads(secrets.pop("key"))["d"])
            yield from secrets.items()


def texts_below(root: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    """Every file of a drive but its keys, and what databases and compressed files hold, by its name."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if not path.is_file() or name.parts[0] == "keys":
            continue
        data = path.read_bytes()
        yield str(name), data.decode(errors="replace")
        if data.startswith(b"\x1f\x8b"):
            yield f"{name} unpacked", gzip.decompress(data).decode(errors="replace")
        elif data.startswith(b"SQLite format 3"):
            with closing(sqlite3.connect(path)) as opened:
                yield f"{name} as rows", "\n".join(opened.iterdump())
        elif data[8:12] == b"DUCK":
            yield f"{name} as rows", _rows_of(path, scratch)
        elif data.startswith(b"PAR1"):
            yield f"{name} as rows", repr(duckdb.read_parquet(str(path)).fetchall())


def _rows_of(path: Path, scratch: Path) -> str:
    """All rows of a DuckDB file, read from a copy with what its log holds."""
    copy = Path(shutil.copy(path, scratch / "copy.duckdb"))
    log = path.with_name(f"{path.name}.wal")
    if log.exists():
        shutil.copy(log, scratch / "copy.duckdb.wal")
    with duckdb.connect(str(copy)) as opened:
        names = opened.execute(TABLES).fetchall()
        text = repr([opened.execute(f'from "{a}"."{b}"."{c}"').fetchall() for a, b, c in names])
    for left in scratch.glob("copy.duckdb*"):
        left.unlink()
    return text
