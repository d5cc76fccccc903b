"""Words for the facts of a diff: kinds of files, rounds, and reasons for missing text. Pure."""

from collections.abc import Mapping

from scoring.diff.change import FileChange
from scoring.diff.compare import Comparison
from scoring.formatting import visible
from scoring.queries.read import Round

KINDS: Mapping[str, str] = {"added": "new file", "deleted": "deleted", "mode": "mode only"}
MODES: Mapping[str, str] = {"100644": "plain", "100755": "executable", "120000": "symbolic link", "160000": "submodule"}
ELSEWHERE = "Read it on the forge"


def file_facts(file: FileChange, inner: bool = False) -> tuple[str, ...]:
    """Return the facts in a file's header; `inner` for a file in a comparison of two rounds."""
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


def round_words(shown_round: Round) -> str:
    """Name a round in a list: "Round 3, latest". A patch replaced within its round says how far back it is."""
    number, _, later = shown_round.key.partition("-")
    age = "" if not later else ", earlier patch" if later == "1" else f", {later} patches earlier"
    return f"Round {number}{age}{', latest' if shown_round.newest else ''}"


def why_missing(shown_round: Round | None) -> tuple[str, str]:
    """Return why a round's text cannot be shown, and what to do; ("", "") where nothing is known to be missing."""
    if shown_round is None:
        return "Its record names no patch.", "Its author must send it again, or look on the forge."
    if shown_round.state is None and shown_round.problem:
        reason = f"The patch of this round could not be fetched: {visible(shown_round.problem)[:300]}."
        return reason, f"It loads automatically. {ELSEWHERE} until then."
    if shown_round.state is None:
        return "The patch of this round has not arrived.", (
            f"The latest round arrives within minutes; earlier ones are not fetched. {ELSEWHERE}."
        )
    if shown_round.state == "malformed" and not shown_round.bytes:
        return "The patch of this round is empty.", f"Its author must send it again. {ELSEWHERE}."
    if shown_round.state == "oversized" and not shown_round.bytes:
        return "The patch of this round is larger than the limit.", (
            f"{ELSEWHERE}, or ask the operator to raise PATCH_LIMIT_BYTES."
        )
    if shown_round.sha256 is None:
        return "The patch of this round is no longer stored.", (
            f"Patches are deleted some time after the pull request is settled, or when a person is erased. {ELSEWHERE}."
        )
    return "", ""


UNREADABLE = (
    "The file of this patch is missing or damaged on this machine.",
    f"The operator may restore DIFF_CORPUS_DIR from a backup. {ELSEWHERE}.",
)


def state_words(shown_round: Round) -> str:
    """Return a warning about an incomplete patch that is shown; "" for a complete one."""
    if shown_round.state == "oversized":
        return f"Only the first {shown_round.bytes:,} bytes of this patch were fetched: what follows them is not shown."
    if shown_round.state == "malformed":
        return "Git cannot apply this patch. Here is the readable part."
    return ""


def comparison_words(comparison: Comparison, same_patch: bool) -> tuple[str, ...]:
    """Describe the result of comparing two rounds, in sentences."""
    if same_patch or comparison.verdict == "same":
        sentences = ["Nothing changed: both rounds make the same change, line for line."]
        sentences.append("Only positions, messages or dates may differ, as after a rebase without change.")
    elif comparison.verdict == "rebased":
        sentences = ["A rebase without change: the same lines are added and removed."]
        sentences.append("Only the lines around them differ.")
    else:
        count = len(comparison.files) + len(comparison.too_long)
        same_words = f"; {comparison.same:,} do{'es' if comparison.same == 1 else ''} not" if comparison.same else ""
        sentences = [f"{_files(count)} differ{'s' if count == 1 else ''} between the two rounds{same_words}."]
        if comparison.by_patch:
            count = len(comparison.by_patch)
            sentences.append(
                f"{_files(count)} {'is' if count == 1 else 'are'} compared patch with patch, as the text after each "
                "round is not known: the first mark says which round has a line, the second what it does with it."
            )
    if comparison.opaque and not same_patch:
        sentences.append(f"{_files(comparison.opaque)} cannot be compared: binary.")
    if comparison.too_long:
        names = ", ".join(visible(path)[:100] for path in comparison.too_long[:5])
        sentences.append(
            f"Too long to compare line by line: {names}{' and others' if len(comparison.too_long) > 5 else ''}."
        )
    return tuple(sentences)


def rest_words(lines: int, files: int) -> str:
    """Say how much one page does not show; "" where it shows everything."""
    return f"The rest is not shown: {lines:,} line{'' if lines == 1 else 's'} in {_files(files)}." if lines else ""


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
