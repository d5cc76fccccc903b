"""Links to the forge by what is known now: a number, a repository, an author, and names that are none."""

from pathlib import Path

import pytest

from scoring.queries import read
from scoring.queries.read import ForgeHome
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames
from tests.pipeline import opened
from tests.scoring.small import OFFERED, settled, take
from triage.presenters.rows import ForgePlace, forge_place

SITE = "https://tangled.org"
HOME = ForgeHome(MARA, SEED, "seed.example", "lantern", 12)


@pytest.mark.parametrize(
    ("home", "url", "words"),
    [
        (HOME, "/seed.example/lantern/pulls/12", "Open lantern #12 on Tangled"),
        (ForgeHome(MARA, SEED, None, "lantern", 12), f"/{SEED}/lantern/pulls/12", "Open lantern #12 on Tangled"),
        (
            ForgeHome(MARA, SEED, "seed.example", "lantern", None),
            "/seed.example/lantern/pulls",
            "Open lantern on Tangled",
        ),
        (ForgeHome(MARA, SEED, "seed.example", None, 12), f"/{MARA}", "Open its author on Tangled"),
        (ForgeHome(MARA, None, None, "lantern", None), f"/{MARA}", "Open its author on Tangled"),
    ],
)
def test_a_link_leads_to_the_nearest_page_that_is_known(home: ForgeHome, url: str, words: str) -> None:
    found = forge_place(home, f"{SITE}/")
    assert found is not None
    assert found.url == SITE + url
    assert found.words == words


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a?b", "a#b", "a b", "\u202elantern", "", "x" * 101, "a\n"])
def test_a_name_that_the_forge_would_not_give_leads_to_the_author(name: str) -> None:
    assert forge_place(ForgeHome(MARA, SEED, "seed.example", name, 12), SITE) == ForgePlace(
        f"{SITE}/{MARA}", "Open its author on Tangled"
    )


@pytest.mark.parametrize("author", ["javascript:alert(1)//", "", "did:plc:a/../b"])
def test_of_an_author_without_a_readable_did_there_is_no_link(author: str) -> None:
    assert forge_place(ForgeHome(author, None, None, None, None), SITE) is None


def test_a_repository_that_moved_is_addressed_by_its_owner_and_name_of_today(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        take(result, settled("open"))
        with result.store.write() as txn:
            page = {"pull_uri": OFFERED, "number": 7, "url": f"{SITE}/seed.example/lantern/pulls/7"}
            txn.append_new("pull_pages", [page])
            txn.execute("update contributors set handle = 'seed.example', handle_verified = true where did = ?", [SEED])
        with result.reading() as rows:
            assert forge_place(read.forge_home(rows, OFFERED, MARA, REPO), SITE) == ForgePlace(
                page["url"], "Open lantern #7 on Tangled"
            )
        frames = Frames(settled("open"))
        frames.repository(SEED, "lantern", "update", name="lamp", repoDid=REPO)
        take(result, frames)
        with result.store.write() as txn:
            txn.execute("update contributors set handle = 'house.example' where did = ?", [SEED])
        with result.reading() as rows:
            moved = forge_place(read.forge_home(rows, OFFERED, MARA, REPO), SITE)
            assert moved == ForgePlace(f"{SITE}/house.example/lamp/pulls/7", "Open lamp #7 on Tangled")
        frames.delete(SEED, "sh." + "tangled.repo", "lantern")
        take(result, frames)
        with result.reading() as rows:
            gone = forge_place(read.forge_home(rows, OFFERED, MARA, REPO), SITE)
            assert gone == ForgePlace(f"{SITE}/{MARA}", "Open its author on Tangled")
