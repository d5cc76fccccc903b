"""The simulated network: the same for the same seed, true in its forms, and each attack separable from the rest."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.standins.load import bulk
from trustsite.standins.recording import open_recording, write_recording
from trustsite.world import ATTACKS, END_TIME_US, World, build_world
from trustsite.world.changes import CHANGES
from trustsite.world.network import (
    TID_LETTERS,
    Signature,
    blob_cid,
    draw,
    encode_tid,
    format_patch,
    make_edit,
    record_cid,
)

PULL, STATUS, VOUCH = "sh.tangled.repo.pull", "sh.tangled.repo.pull.status", "sh.tangled.graph.vouch"


@cache
def world(*without: str) -> World:
    return build_world(without=without)


def commits(world: World, collection: str) -> Iterator[dict[str, Any]]:
    for frame, name in zip(world.recording.frames, world.recording.collections, strict=True):
        if name == collection:
            yield json.loads(frame)


def decode_tid(text: str) -> int:
    number = 0
    for letter in text:
        number = number << 5 | TID_LETTERS.index(letter)
    return number >> 10


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_recording(tmp_path / name, build_world(seed=3).recording)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert build_world(seed=4).recording.fingerprint != build_world(seed=3).recording.fingerprint


def test_what_the_world_writes_opens_as_a_recording(tmp_path: Path) -> None:
    write_recording(tmp_path, world().recording)
    read = open_recording(tmp_path)
    assert read.frames == world().recording.frames
    assert dict(read.blobs) == dict(world().recording.blobs)
    assert read.people == world().recording.people


@pytest.mark.parametrize("attack", ATTACKS)
def test_leaving_an_attack_out_leaves_everything_else_as_it_was(attack: str) -> None:
    every, fewer = world().recording, world(attack).recording
    frames = iter(every.frames)
    assert all(frame in frames for frame in fewer.frames)
    assert len(fewer.frames) < len(every.frames)
    assert fewer.blobs.items() <= every.blobs.items()
    assert {person.did for person in every.people} - {person.did for person in fewer.people} == {
        *world().groups[attack],
    }
    assert fewer.last_time_us == every.last_time_us
    assert fewer.repositories == every.repositories


def test_what_remains_without_any_attack_is_written_by_honest_people() -> None:
    honest = world(*ATTACKS)
    writers = {did for did, name in zip(honest.recording.dids, honest.recording.collections, strict=True) if name}
    assert writers <= set(honest.honest)


def test_an_unknown_attack_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="there is no attack magic: choose from ring"):
        build_world(without={"magic"})


@pytest.mark.parametrize("seed", [7, 8])
def test_every_patch_is_valid_and_none_is_offered_twice(seed: int, tmp_path: Path) -> None:
    blobs = build_world(seed=seed).recording.blobs
    patches = [gzip.decompress(data) for data in blobs.values()]
    for number, patch in enumerate(patches):
        (tmp_path / f"{number}.patch").write_bytes(patch)
    files = sorted(tmp_path.iterdir())
    numbers = subprocess.run(["git", "apply", "--numstat", *files], capture_output=True, text=True, cwd=tmp_path)
    assert numbers.returncode == 0, numbers.stderr
    assert len(numbers.stdout.splitlines()) == len(patches)
    ids = subprocess.run(
        ["git", "patch-id", "--stable"], input=b"".join(patches), capture_output=True, cwd=tmp_path, check=True
    )
    patch_ids = [line.split()[0] for line in ids.stdout.splitlines()]
    assert len(patch_ids) == len(set(patch_ids)) == len(blobs)


def test_patches_apply_to_the_files_that_they_were_made_from(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for number, language in enumerate([*CHANGES] * 4):
        edit = make_edit(draw("apply", number), language, "src", trap=number % 2 == 0)
        path = tmp_path / edit.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(edit.before)
        patch = format_patch(edit, Signature("Ana", "ana@example.test", 1_790_000_000_000_000, 2))
        subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
        assert path.read_text() == edit.after


def test_identifiers_are_well_formed_and_computed() -> None:
    for event in commits(world(), PULL):
        commit = event["commit"]
        assert commit["cid"] == record_cid(commit["record"])
        for offered in commit["record"]["rounds"]:
            key = (event["did"], offered["patchBlob"]["ref"]["$link"])
            assert blob_cid(world().recording.blobs[key]) == key[1]
            assert len(world().recording.blobs[key]) == offered["patchBlob"]["size"]
        if commit["operation"] == "create":
            assert 0 < event["time_us"] - decode_tid(commit["rkey"]) < 1_000_000
    assert all(did.startswith("did:web:") or len(did) == 32 for did in world().cast.values())


def test_a_computed_cid_is_the_one_that_real_servers_computed(shared: Path) -> None:
    compared = 0
    for frame in open_recording(shared / "examples" / "jetstream").frames:
        commit = json.loads(frame).get("commit", {})
        if "record" in commit and "[body cut]" not in frame.decode():
            assert record_cid(commit["record"]) == commit["cid"]
            compared += 1
    assert compared > 100


def test_a_tid_is_the_one_that_a_real_server_wrote() -> None:
    # at://…/sh.tangled.repo.pull/3mxf3x7ivft22, seen live on 2026-10-08.
    assert encode_tid(decode_tid("3mxf3x7ivft22"), 0) == "3mxf3x7ivft22"


def test_no_time_runs_backwards_and_everything_happens_before_the_end() -> None:
    recording = world().recording
    assert recording.times == sorted(recording.times)
    assert recording.last_time_us == END_TIME_US
    created = {person.did: person.created_at for person in recording.people}
    for event in commits(world(), PULL):
        assert created[event["did"]] < event["commit"]["record"]["createdAt"]


def test_swapped_patches_arrive_only_in_the_second_stage() -> None:
    first, everything = world().stages
    assert everything == len(world().recording.frames)
    late = [json.loads(frame) for frame in world().recording.frames[first:]]
    updates = [event["commit"] for event in late if event["kind"] == "commit"]
    uris = {f"at://{world().groups['swap'][0]}/{PULL}/{commit['rkey']}": commit for commit in updates}
    assert set(uris) == {*world().pulls["swapped"], *world().pulls["round_added"]}
    assert len(uris[world().pulls["swapped"][0]]["record"]["rounds"]) == 1
    assert len(uris[world().pulls["round_added"][0]]["record"]["rounds"]) == 2
    assert all(commit["operation"] == "update" for commit in updates)


def test_the_ring_has_exactly_one_vouch_from_outside() -> None:
    ring = set(world().groups["ring"])
    assert len(ring) == 12
    bought = [
        event for event in commits(world(), VOUCH)
        if event["commit"]["rkey"] in ring and event["did"] not in ring and event["commit"]["record"]["kind"] == "vouch"
    ]  # fmt: skip
    assert [event["did"] for event in bought] == [world().cast["pim"]]


def test_the_attackers_write_what_the_story_says() -> None:
    cast = world().cast
    vouches = {(event["did"], event["commit"]["rkey"]) for event in commits(world(), VOUCH)}
    assert (cast["narcis"], cast["narcis"]) in vouches
    assert {(cast["castor"], cast["pollux"]), (cast["pollux"], cast["castor"])} <= vouches
    assert {subject for voucher, subject in vouches if voucher == cast["grudge"]} == set(world().honest)
    statuses = [(event["did"], event["commit"]["record"]["pull"]) for event in commits(world(), STATUS)]
    assert [pull for did, pull in statuses if did == cast["selma"]] == [*world().pulls["self_marked"]]
    assert {pull for did, pull in statuses if did == cast["drifter"]} == {*world().pulls["stranger_marked"]}


def test_honest_merges_are_recorded_by_a_push_holder_other_than_the_author() -> None:
    honest = world(*ATTACKS)
    push = {repository.repo: repository.push for repository in honest.recording.repositories}
    targets = {
        f"at://{event['did']}/{PULL}/{event['commit']['rkey']}": event["commit"]["record"]["target"]["repo"]
        for event in commits(honest, PULL)
    }
    settled = 0
    for event in commits(honest, STATUS):
        pull = event["commit"]["record"]["pull"]
        assert event["did"] in push[targets[pull]]
        assert not pull.startswith(f"at://{event['did']}/")
        settled += 1
    assert settled > 250


def test_a_load_recording_has_the_size_that_was_asked_for() -> None:
    recording = bulk(1000, 2000)
    assert len(recording.people) == 1000
    assert recording.collections.count(PULL) == 2000
    assert recording.frames == bulk(1000, 2000).frames
    assert recording.frames != bulk(1000, 2000, seed=2).frames
    assert all(len(data) > 100 for data in recording.blobs.values())
