"""Sessions in the accounts' file, which a view may write together with what it did."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.db import OperationalError


class SessionStore(db.SessionStore):
    """Django's, where a drive that takes no bytes is told as that, and what was written is not written again."""

    _kept: tuple[str | None, bytes] | None = None

    def keep(self) -> None:
        """Write it at once, in the transaction of whoever calls, so that what they do and this are done or undone."""
        self.save()
        self._kept = self._content()

    def save(self, must_create: bool = False) -> None:
        """Write it unless it was kept as it is; OperationalError where the file takes nothing, UpdateError if it ended.

        Django says UpdateError of both: 400, "the session was deleted".
        """
        if self._kept is not None and self._kept == self._content():
            return
        try:
            super().save(must_create)
        except UpdateError as problem:
            if isinstance(problem.__context__, OperationalError):
                raise problem.__context__ from None
            raise

    def _content(self) -> tuple[str | None, bytes]:
        return self.session_key, self.serializer().dumps(self._get_session())  # `encode` would sign the time with it
