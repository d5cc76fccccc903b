"""Plays the demo's thirty days of watching: the stream goes on in steps, and the maintainer acts after each."""

from dataclasses import dataclass

from triage.models import Person
from trustsite.demo.recorded import act, answer_audits, open_lane, wait_until_settled
from trustsite.demo.story import MAIN
from trustsite.standins import StandIns
from trustsite.worker.worker import Worker
from trustsite.world import World
from trustsite.world.weeks import APPROVED, LOOKS, MARKED, OPENED

READ = "Read line by line: I would have merged it as it is."
WENT_WRONG = "Older clients could not read what it writes, so it was taken back."
NEEDED_FIX = "It forgot the last key, which was mended two days later."


@dataclass(frozen=True, slots=True)
class Month:
    """The worker on the simulated network, and the maintainer who acts there."""

    worker: Worker
    peers: StandIns
    world: World
    person: Person

    def play(self) -> None:
        """Let the thirty days pass; what the audit draws in the last days is left to the visitor of the pages.

        What the maintainer did is judged before the stream goes on: else a change that is merged next went through the
        lane that they opened, or did not, as the machine was fast or slow.
        """
        for number in range(1, LOOKS + 1):
            self.peers.release(self.world.looks[number])
            wait_until_settled(self.worker, quiet_seconds=0.0)
            self._act(number)
            wait_until_settled(self.worker, quiet_seconds=0.0)
        wait_until_settled(self.worker)

    def _act(self, number: int) -> None:
        if number == OPENED:
            open_lane(self.worker, self.person, self.world.watched[MAIN])
        if number == APPROVED:
            self._on("went_wrong", "approve")
        if number == MARKED:
            self._on("went_wrong", "outcome", "reverted", WENT_WRONG)
            self._on("needed_fix", "outcome", "needed_fix", NEEDED_FIX)
        if OPENED < number < LOOKS:
            answer_audits(self.worker, self.person, READ)

    def _on(self, name: str, kind: str, outcome: str = "", note: str = "") -> None:
        (uri,) = self.world.pulls[name]
        act(self.worker, self.person, uri, kind, outcome, note)
