"""Loopback stand-ins that speak the real wire formats: Jetstream, PLC directory, PDS, handle domains and knots."""

from typing import Self

from trustsite.standins.jetstream import Jetstream
from trustsite.standins.peers import Peers
from trustsite.standins.recording import Recording


class StandIns:
    """The network of one recording on 127.0.0.1, served from threads while the context is open.

    Only the first `hold_after` frames go out at first; None sends all of them.
    """

    def __init__(self, recording: Recording, hold_after: int | None = None) -> None:
        self.jetstream = Jetstream(recording, hold_after)
        self.peers = Peers(recording, lambda: self.jetstream.released)

    @property
    def jetstream_url(self) -> str:
        return self.jetstream.url

    @property
    def origin(self) -> str:
        """Return http://127.0.0.1:<port>, which answers for every host by its Host header."""
        return self.peers.origin

    def release(self, until: int | None) -> None:
        """Let the first `until` frames go out; None means all of them."""
        self.jetstream.release(until)

    def start(self) -> Self:
        self.jetstream.start()
        self.peers.start()
        return self

    def close(self) -> None:
        self.jetstream.close()
        self.peers.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
