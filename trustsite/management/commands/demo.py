"""`manage.py demo`: the real worker on a simulated network, its story, then the pages."""

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest import watch
from ingest.records import NAMESPACE
from scoring import read
from scoring.told_settings import switch_shadow
from triage.models import Maintainer, Person
from trustsite import drive
from trustsite.recorded import open_worker, run_beside, serve_beside, wait_until_settled
from trustsite.standins import StandIns
from trustsite.story import tell
from trustsite.worker import Worker
from trustsite.world import World, build_world

# Set by hand, as an operator may: the pages say that no certificate stands behind it.
DEMO_T_HIGH = 0.80
MAIN = "lantern"  # the repository in which people can act; the others show shadow mode


class Command(BaseCommand):
    """Plays the simulated network in two stages: judged, then attacked by a swapped patch."""

    help = "Run the real worker on a simulated network, tell what happened, then serve the pages."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """--check."""
        parser.add_argument("--check", action="store_true", help="only the story; fails where a promise is not kept")

    def handle(self, *args: object, check: bool, **options: object) -> None:
        """Play, tell, serve; CommandError where a promise of the story fails, DriveProblem beside another demo."""
        with drive.alone(settings.PLACE):
            drive.empty(settings.ROOT)  # every demo starts from nothing
            self._start(check)

    def _start(self, check: bool) -> None:
        world = build_world()
        settings.DEMO_MAINTAINER = world.cast["ana"]
        if settings.T_HIGH is None:
            settings.T_HIGH = max(DEMO_T_HIGH, settings.T_LOW)
        # The first 60 would all be drawn for the audit, and nobody is there to answer it.
        settings.AUDIT_SHARE, settings.AUDIT_PER_DAY, settings.AUDIT_FIRST = 0.0, 0.0, 0
        with StandIns(world.recording, hold_after=world.stages[0]) as peers:
            worker = open_worker(peers, world.recording, "demo", (f"{NAMESPACE}*",))
            run_beside(worker, lambda: self._play(worker, peers, world, check))

    def _play(self, worker: Worker, peers: StandIns, world: World, check: bool) -> None:
        wait_until_settled(worker)
        did, watched = world.cast["ana"], list(world.watched.values())
        keys = watch.add_maintainer(worker.store, did, watched, worker.clock.now())
        switch_shadow(worker.store, world.watched[MAIN], False, worker.clock.now())
        worker.hops.follow("job")
        wait_until_settled(worker)
        with worker.store.read() as rows:
            before = read.pull(rows, world.pulls["swapped"][0])
        if before is None:
            raise CommandError("The pull request whose patch will be swapped was not judged.")
        peers.release(None)
        wait_until_settled(worker)
        self._tell(worker, world, before)
        if not check:
            worker.publisher.publish_now()
            open_account(did, keys)
            self.stderr.write(
                f"Serving on http://{settings.BIND} until Ctrl-C; sign in there as {_name(worker)} in one click."
            )
            serve_beside(worker)

    def _tell(self, worker: Worker, world: World, before: read.QueueRow) -> None:
        with worker.store.read() as rows:
            lines, promises = tell(rows, world, before)
        for line in lines:
            self.stdout.write(line)
        self.stdout.write("")
        for promise in promises:
            self.stdout.write(f"{'kept  ' if promise.kept else 'BROKEN'}  {promise.words}")
        broken = [promise.words for promise in promises if not promise.kept]
        if broken:
            raise CommandError(f"The demo broke {len(broken)} of its promises: {'; '.join(broken)}.")


def open_account(did: str, keys: list[str]) -> None:
    """The maintainer's account on the site, as `manage.py add_maintainer` makes it."""
    call_command("migrate", verbosity=0, interactive=False)
    person, _ = Person.objects.get_or_create(did=did)
    for key in keys:
        Maintainer.objects.get_or_create(person=person, repo_key=key)


def _name(worker: Worker) -> str:
    with worker.store.read() as rows:
        found = read.score(rows, settings.DEMO_MAINTAINER or "")
    return found.person.name if found else "the maintainer"
