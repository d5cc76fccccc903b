"""The server's reading of requests, strict where a proxy in front might see another end of a request than we do."""

from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import BaseWSGIServer

AMBIGUOUS = "Content-Length and Transfer-Encoding together leave open where the request ends"


class StrictParser(HTTPRequestParser):
    """waitress' parser, which takes a body whose length is told in one way alone (RFC 9112, 6.1 and 6.3).

    waitress goes by Transfer-Encoding where both are there; a proxy that goes by Content-Length would take the rest of
    the body for the next visitor's request, or the other way round.
    """

    def parse_header(self, header_plus: bytes) -> None:
        """As waitress does; ParsingError, which is answered 400 and closes the connection, for an unclear length."""
        super().parse_header(header_plus)
        # waitress takes the header away where it goes by it, which it does for HTTP/1.1 alone.
        has_encoding = self.chunked or "TRANSFER_ENCODING" in self.headers
        if has_encoding and ("CONTENT_LENGTH" in self.headers or self.version != "1.1"):
            raise ParsingError(AMBIGUOUS)


class StrictChannel(HTTPChannel):
    """A connection whose requests are read strictly."""

    parser_class = StrictParser


def read_strictly(channels: dict[int, Any]) -> None:
    """Have every server among `channels` (its sockets by file number) read its connections strictly."""
    for server in channels.values():
        if isinstance(server, BaseWSGIServer):
            server.channel_class = StrictChannel
