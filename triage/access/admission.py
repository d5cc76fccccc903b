"""Decide who may come in, and which roles a person gets by signing in.

A proven DID alone gives no role. A site without an admin gets its first one from its operator: by FIRST_ADMIN, or by a
code that the worker and `manage.py first_admin` print. With ACCEPT_PUSH_HOLDERS who may push to a watched repository
maintains it.
"""

import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from ingest.atproto.syntax import ALPHABET, parse_handle
from ingest.store.snapshots import Snapshot
from ingest.store.tombstones import mark_of
from triage.access.permissions import SEEDS, Role, has_admin, offered_roles, roles_of, set_role
from triage.access.tokens import same_hash, secret_hash
from triage.models import Change, FirstAdminCode, Maintainer, Person

CODE_LENGTH = 20  # characters of 5 bits: too many to try, and short enough to copy by hand
CODE_MINUTES = 15
DECIDED = ("role.changed", "role.declined")  # entries of the log: somebody decided about this role before
SWITCHED_OFF = "This account is switched off here. Ask the operator of this site."
NOT_ADMITTED = "Only people with a role sign in here. Ask the operator of this site for one."
WRONG_CODE = "This code is wrong, used or too old. Print a new one: manage.py first_admin."
HAS_ADMIN = "This site has an admin already. Ask them for a role."


class SignInProblem(Exception):
    """The reason why a sign-in was refused: an HTTP status, one sentence for the person, seconds to wait if any."""

    def __init__(self, status: int, sentence: str, wait: int = 0) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.wait = wait


def let_in(
    person: Person, snapshot: Snapshot | None, now: datetime, proven_handle: str | None = None, code_hash: str = ""
) -> None:
    """Give a person the roles that signing in gives; raise SignInProblem, with nothing changed, if they may not enter.

    `proven_handle` was confirmed for their DID just now: a stored one may belong to somebody else today. `code_hash` is
    of the first admin's code, where they typed it.
    """
    with transaction.atomic():
        if not person.is_active:
            raise SignInProblem(403, SWITCHED_OFF)
        if code_hash:
            become_first_admin(person, code_hash, now)
        elif _is_named_admin(person, proven_handle) and not has_admin():
            set_role(None, person, "", Maintainer.Role.ADMIN, now)
        if settings.ACCEPT_PUSH_HOLDERS:
            _accept_push_holder(person, snapshot, now)
        if settings.SIGN_IN == "invited" and roles_of(person).highest() < Role.VIEWER:
            raise SignInProblem(403, NOT_ADMITTED)


def _is_named_admin(person: Person, proven_handle: str | None) -> bool:
    named = settings.FIRST_ADMIN
    return bool(named) and (person.did == named or (proven_handle is not None and proven_handle == parse_handle(named)))


def _accept_push_holder(person: Person, snapshot: Snapshot | None, now: datetime) -> None:
    """Make a person maintainer where they may push, unless anybody gave, took or declined it there or for all."""
    did = str(person.did)
    decided = Change.objects.filter(what__in=DECIDED, subject__in=(did, erased_subject(did)))
    for key in offered_roles(roles_of(person), snapshot, did):
        if not decided.filter(repo_key__in=(key, "")).exists():
            set_role(None, person, key, Maintainer.Role.MAINTAINER, now)


def keep_refusals(did: str) -> int:
    """Let the refusal of a role outlive the erasure of its person, by a keyed hash in place of the DID.

    It is kept where the last word on the role was no. In a repository whose key names the person it is kept for the
    whole site, as the key goes too.
    """
    kept, log = 0, Change.objects.filter(what__in=DECIDED, subject=did).order_by("pk")
    for key, entry in {entry.repo_key: entry for entry in log}.items():
        if entry.details.get("since") not in SEEDS:
            refusal = {"subject": erased_subject(did), "repo_key": "" if did in key else key, "details": {}}
            kept += Change.objects.filter(pk=entry.pk).update(**refusal)
    return kept


def erased_subject(did: str) -> str:
    """Return what stands for an erased person in the log: a hash under the key that remembers the erased."""
    return f"erased:{mark_of(str(settings.TOMBSTONE_KEY).encode(), did)}"


def make_code(now: datetime) -> str:
    """Return a new code for the first admin; only its hash is stored, and earlier codes end.

    Raises SignInProblem where the site has an admin.
    """
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    with transaction.atomic():
        if has_admin():
            raise SignInProblem(409, HAS_ADMIN)
        FirstAdminCode.objects.all().delete()
        until = now + timedelta(minutes=CODE_MINUTES)
        FirstAdminCode.objects.create(secret_hash=secret_hash(code), expires_at=until)
    return "-".join(code[start : start + 5] for start in range(0, CODE_LENGTH, 5))


def check_code(typed: str, now: datetime) -> str:
    """Return the hash of a code that is valid at `now`; raise SignInProblem otherwise."""
    hashed = secret_hash("".join(letter for letter in typed[:100].lower() if letter.isalnum()))
    _valid_code(hashed, now)
    return hashed


def become_first_admin(person: Person, code_hash: str, now: datetime) -> None:
    """Spend the code and make the person admin of the site; raise SignInProblem, with nothing changed, otherwise."""
    with transaction.atomic():
        if has_admin():
            raise SignInProblem(409, HAS_ADMIN)
        _valid_code(code_hash, now).delete()
        set_role(None, person, "", Maintainer.Role.ADMIN, now)


def _valid_code(code_hash: str, now: datetime) -> FirstAdminCode:
    code = FirstAdminCode.objects.filter(secret_hash=code_hash, expires_at__gt=now).first()
    if code is None or not same_hash(code.secret_hash, code_hash):
        raise SignInProblem(403, WRONG_CODE)
    return code
