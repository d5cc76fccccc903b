"""A DNS server on loopback that says what a test tells it."""

import socket
import threading
from collections.abc import Callable
from typing import Self

import dns.message
import dns.rcode
import dns.resolver
import dns.rrset

Said = Callable[[dns.message.Message], bytes | None]


class DnsServer:
    """Answers TXT questions over UDP; `records` maps a name without its last dot to its texts, `say` overrides all."""

    def __init__(self, records: dict[str, list[str]] | None = None, say: Said | None = None) -> None:
        self.records, self.say = records or {}, say or self._answer
        self.asked: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def __enter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def resolver(self) -> dns.resolver.Resolver:
        """A resolver that asks this server alone."""
        made = dns.resolver.Resolver(configure=False)
        made.nameservers, made.port = ["127.0.0.1"], self._socket.getsockname()[1]
        return made

    def _serve(self) -> None:
        while True:
            try:
                data, sender = self._socket.recvfrom(4096)
            except OSError:
                return
            question = dns.message.from_wire(data)
            self.asked.append(question.question[0].name.to_text(omit_final_dot=True))
            said = self.say(question)
            if said is not None:
                self._socket.sendto(said, sender)

    def _answer(self, question: dns.message.Message) -> bytes:
        answer, name = dns.message.make_response(question), question.question[0].name
        texts = self.records.get(name.to_text(omit_final_dot=True))
        if texts is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif texts:
            answer.answer.append(dns.rrset.from_text_list(name, 60, "IN", "TXT", [f'"{text}"' for text in texts]))
        return answer.to_wire()
