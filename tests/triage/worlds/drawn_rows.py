"""People and open pull requests drawn by hand, with the real judgement of their track records.

Seed vouches for ana, ana for mara; nobody knows mallory, who writes hostile titles.
"""

from datetime import datetime, timedelta

from scoring.explain.decided import decided, explain
from scoring.explain.sentences import would_change
from scoring.gate import decide
from scoring.queries.read import Person, QueueRow
from scoring.types import Evidence, Verdict

NOW = datetime(2026, 3, 12, 14, 2, 11)
THRESHOLDS = decide.Thresholds(t_low=0.30, t_high=0.90)
SEED = Person("did:plc:seedseedseedseedseedseed", "seed.example")
ANA = Person("did:plc:anaanaanaanaanaanaanaana", "ana.example")
MARA = Person("did:plc:maramaramaramaramaramara", "mara.example")
MALLORY = Person("did:plc:mallorymallorymallorymal", "<b>mallory</b>\u202eelpmaxe")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</title></svg><svg onload=alert(3)>",
    "{{ settings.SECRET_KEY }}{% now 'Y' %}",
    "gpj.\u202eexe.example",
    "zero\u200bwidth",
    "W" * 300,
)


def judged(clean: int, not_clean: int, path: tuple[Person, ...], denounced: bool = False) -> tuple[Verdict, Evidence]:
    """The real judgement of a drawn track record."""
    names = tuple(person.name for person in path)
    evidence = Evidence(
        clean=clean,
        not_clean=not_clean,
        merged_here=clean,
        settled_here=clean + not_clean,
        structural_trust=0.6 if path else 0.0,
        eigentrust=0.01 if path else 0.0,
        distance=len(path) - 1 if path else None,
        path=names,
        denounced_by_seed=denounced,
    )
    return decide.judge(evidence, THRESHOLDS, 0.55, 5.0), evidence


def pull_request(number: int, author: Person, title: str, clean: int, not_clean: int, own: bool = False) -> QueueRow:
    """An open pull request with the verdict that its author's record earns."""
    paths = {ANA.did: (SEED, ANA), MARA.did: (SEED, ANA, MARA), SEED.did: (SEED,)}
    path = paths.get(author.did, ())
    verdict, evidence = judged(clean, not_clean, path)
    key = f"3k{number:011d}"
    return QueueRow(
        uri=f"at://{author.did}/" + "sh." + f"tangled.repo.pull/{key}",
        title=title,
        label=f"core · {key[-5:]}",
        page=f"https://tangled.org/seed.example.test/core/pulls/{number}",
        repository_key="did:plc:corecorecorecorecorecore",
        repository_name="core",
        author=author,
        own=own,
        first_timer=clean + not_clean == 0,
        opened_at=NOW - timedelta(hours=5 * number + 1),
        round=0,
        record_cid="bafyreib2rxk3rh6kzwq",
        patch_id="9f3c" * 10,
        files=2,
        added=40,
        removed=7,
        verdict=verdict,
        structural_trust=evidence.structural_trust,
        eigentrust=evidence.eigentrust,
        content_risk=None,
        path=path,
        sentence=explain(verdict, evidence),
        decided=decided(verdict, evidence),
        would_change=would_change(verdict, evidence, THRESHOLDS),
        as_of=NOW,
        model_version="beta-1",
        lane_start=THRESHOLDS.t_high,
    )


def drawn_rows() -> tuple[QueueRow, ...]:
    """A row in each group, and one for each hostile title."""
    plain = (
        pull_request(1, ANA, "Fix flaky knot test", 120, 0),
        pull_request(2, MARA, "Cache repository listing", 3, 1),
        pull_request(3, MALLORY, "Rework token refresh", 0, 12),
        pull_request(4, Person("did:web:localhost%3A8765", "liv.example"), "Add Norwegian strings", 0, 0),
        pull_request(5, SEED, "Release 0.9", 9, 0, own=True),
    )
    return plain + tuple(pull_request(10 + index, MALLORY, title, 2, 1) for index, title in enumerate(HOSTILE))
