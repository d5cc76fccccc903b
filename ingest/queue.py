"""The Huey queue: a SQLite file of its own, messages signed and written as JSON (nothing is ever unpickled)."""

import json
from datetime import datetime
from typing import Any

from django.conf import settings
from huey import SqliteHuey
from huey.registry import Message
from huey.serializer import SignedSerializer


class SignedJsonSerializer(SignedSerializer):
    """Signed JSON: a stranger who can write to the queue's file cannot make the worker run anything.

    Carries messages without callbacks (no `on_complete`, `on_error` or chord) and plain JSON values.
    """

    def _serialize(self, message: object) -> bytes:
        plain: Any = message
        if isinstance(message, Message):
            fields = message._asdict()
            fields["eta"] = message.eta.isoformat() if message.eta else None
            plain = {"huey_message": fields}
        return self._sign(json.dumps(plain).encode())

    def _deserialize(self, data: bytes) -> object:
        plain = json.loads(self._unsign(data))
        if not isinstance(plain, dict) or "huey_message" not in plain:
            return plain
        fields = plain["huey_message"]
        eta = datetime.fromisoformat(fields["eta"]) if fields["eta"] else None
        return Message(**fields | {"eta": eta, "args": tuple(fields["args"])})


# Waiting up to 20 s for the file: web and worker share it, and the default of 5 s was exceeded under load (huey #445).
huey = SqliteHuey(
    "sunstead",
    filename=str(settings.QUEUE_PATH),
    serializer=SignedJsonSerializer(secret=str(settings.SECRET_KEY)),
    results=False,
    utc=True,
    immediate=False,
    timeout=20,
)
