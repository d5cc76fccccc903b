"""The demo's thirty days of watching: the stream goes on from look to look, and the maintainer acts as on the pages."""

from dataclasses import dataclass

from django.core.management.base import CommandError

from scoring import read
from scoring.told_settings import switch_shadow
from triage.models import Person
from trustsite.approving import approve, mark
from trustsite.recorded import wait_until_settled
from trustsite.standins import StandIns
from trustsite.story import MAIN
from trustsite.worker import Worker
from trustsite.world import World
from trustsite.world.weeks import LOOKS, OPENED

APPROVED, MARKED = 7, 9  # the looks at which what went wrong is approved, and marked
WENT_WRONG = "Older clients could not read what it writes, so it was taken back."
NEEDED_FIX = "It forgot the last key; mended two days later."


@dataclass(frozen=True, slots=True)
class Month:
    """The worker on the simulated network, and who acts there."""

    worker: Worker
    peers: StandIns
    world: World
    person: Person

    def play(self) -> None:
        """Let the thirty days pass; returns when all of them are worked off."""
        for number in range(1, LOOKS + 1):
            self.peers.release(self.world.looks[number])
            wait_until_settled(self.worker, quiet_seconds=0.0)
            self._act(number)

    def _act(self, number: int) -> None:
        if number == OPENED:
            switch_shadow(self.worker.store, self.world.watched[MAIN], False, self.worker.clock.now())
            self.worker.hops.follow("job")
        if number == APPROVED:
            (uri,) = self.world.pulls["went_wrong"]
            with self.worker.store.read() as rows:
                if read.pull(rows, uri) is None:
                    raise CommandError("The pull request that will go wrong was not judged.")
            approve(self.worker, self.person, uri)
        if number == MARKED:
            for name, outcome, note in (
                ("went_wrong", "reverted", WENT_WRONG),
                ("needed_fix", "needed_fix", NEEDED_FIX),
            ):
                mark(self.worker, self.person, self.world.pulls[name][0], outcome, note)
