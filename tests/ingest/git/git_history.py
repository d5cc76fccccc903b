"""A random history of merges and of what becomes of them."""

import random

from tests.ingest.git.git_world import Place, Work


class History:
    """Plants merges and what becomes of them in a random history, and keeps what must be found."""

    def __init__(self, work: Work, place: Place, seed: int) -> None:
        self.work, self.place, self.draw = work, place, random.Random(seed)
        self.planted: set[tuple[str, str, str]] = set()
        self.serial = 0
        self.names = [f"file{number}.py" for number in range(4)]
        self.files = {name: [self.word() for _ in range(60)] for name in self.names}
        work.commit("Files", self.texts())
        place.look()

    def word(self) -> str:
        self.serial += 1
        return f"value_{self.serial} = {self.draw.randrange(10**9)}"

    def texts(self) -> dict[str, str | bytes | None]:
        return {name: "".join(f"{line}\n" for line in lines) for name, lines in self.files.items()}

    def commit(self, message: str) -> str:
        return self.work.commit(message, self.texts())

    def land(self) -> tuple[str, str, str, list[str]]:
        """(pull request, commit, file, lines): offered, seen, and merged in one of five ways."""
        name = self.draw.choice(list(self.files))
        at = self.draw.randrange(5, len(self.files[name]) - 5)
        lines = [self.word() for _ in range(4)]
        before = list(self.files[name])
        first = [*before[:at], *lines[:2], *before[at:]]
        self.files[name] = [*before[:at], *lines, *before[at:]]
        way = self.draw.choice(["am", "squash", "merge", "rebase", "series"])
        steps = [("Add", {name: self.texts()[name]})]
        if way in ("squash", "series"):
            steps.insert(0, ("Half", {name: "".join(f"{line}\n" for line in first)}))
        mails = self.work.offer("HEAD", steps)
        pull = self.place.offer(mails)
        self.place.look()
        return pull, self.merge(way, mails), name, lines

    def merge(self, way: str, mails: bytes) -> str:
        if way == "squash":
            return self.commit("Squashed")
        if way in ("am", "series"):
            return self.work.am(mails)
        self.work.git("checkout", "-q", "--detach")
        commit = self.work.am(mails)
        self.work.git("checkout", "-q", "main")
        if way == "merge":
            self.work.commit("Meanwhile", {f"noise{self.serial}.txt": self.word()})
            self.work.git("merge", "-q", "--no-ff", "-m", "Merge", commit)
        else:
            self.work.git("reset", "-q", "--hard", commit)
        return commit

    def without(self, name: str, lines: list[str]) -> None:
        self.files[name] = [line for line in self.files[name] if line not in lines]

    def revert(self) -> None:
        pull, commit, name, lines = self.land()
        kept = list(self.files[name])
        self.without(name, lines)
        named = self.draw.random() < 0.7
        first = self.commit(f"Back\n\nThis reverts commit {commit[:12]}." if named else "Remove what was added")
        self.planted.add((pull, "reverted", first))
        if named and self.draw.random() < 0.5:
            self.files[name] = kept
            again = self.commit(f"Again\n\nThis reverts commit {first}.")
            self.without(name, lines)
            self.planted.add((pull, "reverted", self.commit(f"Back\n\nThis reverts commit {again}.")))

    def fix(self) -> None:
        pull, _, name, lines = self.land()
        for _ in range(self.draw.randrange(3)):
            self.noise()
        if self.draw.random() < 0.5:
            self.rename(name)
            name = next(other for other, some in self.files.items() if lines[0] in some)
        self.files[name][self.files[name].index(lines[self.draw.randrange(4)])] = self.word()
        if self.draw.random() < 0.3:
            self.work.git("checkout", "-q", "--detach")
            fix = self.commit("Fix on a branch")
            self.work.git("checkout", "-q", "main")
            self.work.commit("Meanwhile", {f"noise{self.serial}.txt": self.word()})
            self.work.git("merge", "-q", "--no-ff", "-m", "Merge a fix", fix)
        else:
            fix = self.commit("Fix")
        self.planted.add((pull, "patched", fix))

    def rename(self, name: str) -> None:
        fresh = f"moved_{self.place.offered}_{self.serial}_{self.draw.randrange(10**9)}.py"
        self.work.git("mv", name, fresh)
        self.files[fresh] = self.files.pop(name)
        self.commit("Rename")

    def noise(self) -> None:
        name = self.draw.choice(list(self.files))
        self.files[name].insert(self.draw.choice([0, len(self.files[name])]), self.word())
        self.commit("Noise")

    def quiet(self) -> None:
        _, _, name, lines = self.land()
        way = self.draw.choice(["indent", "move", "rename", "between"])
        place = self.files[name].index(lines[0])
        if way == "indent":
            self.files[name] = [f"  {line}" if line in lines else line for line in self.files[name]]
        elif way == "move":
            self.without(name, lines)
            self.files[name][1:1] = lines
        elif way == "between":
            self.files[name].insert(place + 2, self.word())
        self.rename(name) if way == "rename" else self.commit("Quiet")
