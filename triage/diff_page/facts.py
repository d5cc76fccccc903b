"""Words for the facts of a diff: kinds of files, rounds, and why something is not there. Pure."""

from collections.abc import Mapping

from scoring.diff.change import FileChange
from scoring.diff.compare import Comparison
from scoring.formatting import visible
from scoring.queries.read import Round

KINDS: Mapping[str, str] = {"added": "new file", "deleted": "deleted", "mode": "mode only"}
MODES: Mapping[str, str] = {"100644": "plain", "100755": "executable", "120000": "symbolic link", "160000": "submodule"}
ELSEWHERE = "Read it on the forge"


def file_facts(file: FileChange, inner: bool = False) -> tuple[str, ...]:
    """Return what a file's header says beside its lines; `inner` for a file of a comparison of two rounds."""
    if inner:
        kinds = {"added": "only the later round changes it", "deleted": "only the earlier round changes it"}
        facts = [kinds.get(file.kind, "")]
        if not file.hunks:
            facts.append("its name, its kind or its mode differs; no line does")
        return tuple(fact for fact in facts if fact)
    facts = [KINDS.get(file.kind, "")]
    if file.kind in ("renamed", "copied"):
        facts.append(f"{file.kind} from {visible(file.old_path)}")
    facts.append(_modes(file))
    if file.binary:
        facts.append("binary: no lines to show, and no scanner read it")
    elif not file.hunks:
        facts.append("no line changes")
    return tuple(fact for fact in facts if fact)


def _modes(file: FileChange) -> str:
    old, new = (MODES.get(mode, f"mode {visible(mode)}") if mode else "" for mode in (file.old_mode, file.new_mode))
    if old and new and old != new:
        return f"{old} before, {new} now"
    return "" if MODES["100644"] in (old, new) else new or old


def round_words(found: Round) -> str:
    """Name a round in a list: "Round 3, latest". A patch that was replaced within its round says how far back it is."""
    number, _, later = found.key.partition("-")
    back = "" if not later else ", earlier patch" if later == "1" else f", {later} patches earlier"
    return f"Round {number}{back}{', latest' if found.newest else ''}"


def why_missing(found: Round | None) -> tuple[str, str]:
    """Return why no text of a round can be shown, and what to do; ("", "") where nothing is known to be missing."""
    if found is None:
        return "Its record names no patch.", "Its author must send it again, or look on the forge."
    if found.state is None and found.problem:
        why = f"The patch of this round could not be fetched: {visible(found.problem)[:300]}."
        return why, f"It loads automatically. {ELSEWHERE} until then."
    if found.state is None:
        return "The patch of this round has not arrived.", (
            f"The latest round arrives within minutes; earlier ones are not fetched. {ELSEWHERE}."
        )
    if found.state == "malformed" and not found.bytes:
        return "The patch of this round is empty.", f"Its author must send it again. {ELSEWHERE}."
    if found.state == "oversized" and not found.bytes:
        return "The patch of this round is larger than the limit.", (
            f"{ELSEWHERE}, or ask the operator to raise PATCH_LIMIT_BYTES."
        )
    if found.sha256 is None:
        return "The patch of this round is no longer stored.", (
            f"Patches are deleted some time after the pull request is settled, or when a person is erased. {ELSEWHERE}."
        )
    return "", ""


UNREADABLE = (
    "The file of this patch is missing or damaged on this machine.",
    f"The operator may restore DIFF_CORPUS_DIR from a backup. {ELSEWHERE}.",
)


def state_words(found: Round) -> str:
    """Return what to bear in mind of a patch that can be shown; "" for one that was read whole."""
    if found.state == "oversized":
        return f"Only the first {found.bytes:,} bytes of this patch were fetched: what follows them is not shown."
    if found.state == "malformed":
        return "Git cannot apply this patch. Here is the readable part."
    return ""


def comparison_words(found: Comparison, same_patch: bool) -> tuple[str, ...]:
    """Return what came of comparing two rounds, in sentences."""
    if same_patch or found.verdict == "same":
        told = ["Nothing changed: both rounds make the same change, line for line."]
        told.append("Only positions, messages or dates may differ, as after a rebase without change.")
    elif found.verdict == "rebased":
        told = ["A rebase without change: the same lines are added and removed."]
        told.append("Only the lines around them differ.")
    else:
        count = len(found.files) + len(found.too_long)
        alike = f"; {found.same:,} do{'es' if found.same == 1 else ''} not" if found.same else ""
        told = [f"{_files(count)} differ{'s' if count == 1 else ''} between the two rounds{alike}."]
        if found.by_patch:
            count = len(found.by_patch)
            told.append(
                f"{_files(count)} {'is' if count == 1 else 'are'} compared patch with patch, as the text after each "
                "round is not known: the first mark says which round has a line, the second what it does with it."
            )
    if found.opaque and not same_patch:
        told.append(f"{_files(found.opaque)} cannot be compared: binary.")
    if found.too_long:
        names = ", ".join(visible(path)[:100] for path in found.too_long[:5])
        told.append(f"Too long to compare line by line: {names}{' and others' if len(found.too_long) > 5 else ''}.")
    return tuple(told)


def rest_words(lines: int, files: int) -> str:
    """Return what one page does not show; "" where it shows everything."""
    return f"The rest is not shown: {lines:,} line{'' if lines == 1 else 's'} in {_files(files)}." if lines else ""


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
