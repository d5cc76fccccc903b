"""`manage.py approved`: list or write as mails for `git am` everything that is approved and not merged yet."""

import re
from hashlib import blake2s
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.git.patch import PatchProblem, load_patch
from ingest.store.snapshots import SnapshotReader
from scoring.diff.mailbox import MailboxProblem, MailSource, write_mailbox
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import Approved

OWN = re.compile(r"approved-[0-9a-f]{16}\.mbox")


class Command(BaseCommand):
    """Read the newest snapshot and the stored patches; change only the files in DIR."""

    help = (
        "List what is approved and not merged yet. With --mbox DIR, write one mailbox a pull request into DIR, exactly "
        "the approved round. Mailboxes that are no longer approved are removed. Then, in your own clone: "
        "git am --keep-cr DIR/*.mbox"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--demo", action="store_true", help="the demo's store")
        group.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")
        parser.add_argument("--mbox", type=Path, metavar="DIR", help="where to write the mailboxes")
        parser.add_argument(
            "--repo", metavar="KEY", help="only this repository: its key, or its name where that is one"
        )

    def handle(self, *args: object, mbox: Path | None, repo: str | None, **options: object) -> None:
        """List or write. Raises CommandError (1) if an approved patch could not be written, (2) if none could be."""
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                raise CommandError("Nothing was published there yet: run the worker first.", returncode=2)
            approvals = [approval for approval in read.approved(snapshot) if repo in (None, *_names(approval))]
        if mbox is None:
            for approval in approvals:
                self.stdout.write(_line(approval))
            return
        _prepare(mbox)
        written = {
            _file_name(approval): self._write(mbox, approval)
            for approval in approvals
            if approval.subject.state == "open"
        }
        for stale in mbox.iterdir():
            if OWN.fullmatch(stale.name) and not written.get(stale.name):
                stale.unlink()
        if not all(written.values()):
            raise CommandError("Some approved pull requests could not be written: see above.", returncode=1)
        if not written:
            self.stderr.write("No approved pull request waits for a merge: 0 written.")
            return
        self.stderr.write(f"{len(written)} written. In a clone of the repository: git am --keep-cr {mbox}/*.mbox")

    def _write(self, folder: Path, approval: Approved) -> bool:
        """Write one mailbox; return False, with the reason on stderr, if that is impossible."""
        subject = approval.subject
        source = MailSource(subject.author.did, subject.author.name, subject.title, subject.opened_at)
        try:
            text = load_patch(settings.DIFF_CORPUS_DIR, subject.sha256 or "")
            mails = write_mailbox(text, subject.seen.patch_id or "", source)
        except (PatchProblem, MailboxProblem) as problem:
            self.stderr.write(f"{_line(approval)}\n  not written: {problem}")
            return False
        try:
            draft = folder / ".draft"
            draft.unlink(missing_ok=True)
            with draft.open("xb") as file:
                file.write(mails.encode())
            draft.replace(folder / _file_name(approval))
        except OSError as problem:
            raise CommandError(f"{folder} cannot be written ({problem.strerror}).", returncode=2) from problem
        self.stdout.write(f"{folder / _file_name(approval)}  {_line(approval)}")
        return True


def _prepare(folder: Path) -> None:
    """Check that the folder is ours or empty, else raise CommandError: `git am DIR/*` would take other files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in folder.iterdir() if not OWN.fullmatch(path.name) and path.name != ".draft"]
    except OSError as problem:
        raise CommandError(f"{folder} cannot be used ({problem.strerror}).", returncode=2) from problem
    if strange:
        raise CommandError(f"{folder} holds other files: name an empty folder.", returncode=2)


def _names(approval: Approved) -> tuple[str, str]:
    return approval.subject.repository_key, approval.subject.repository_name


def _file_name(approval: Approved) -> str:
    """Return a name without any text from the network."""
    return f"approved-{blake2s(approval.subject.uri.encode(), digest_size=8).hexdigest()}.mbox"


def _line(approval: Approved) -> str:
    """Return one approval in a line, with control characters made visible."""

    subject = approval.subject
    name = f"{visible(subject.repository_name)}: {visible(subject.title)}"
    return f"{name}, round {subject.seen.round + 1}, patch {subject.seen.patch_id}, {subject.uri}"
