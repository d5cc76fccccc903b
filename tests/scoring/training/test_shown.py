"""The small files of figures that pages read: what they say, and what of a damaged one is believed."""

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as draw_from

from scoring.certificates.certificate import Certificate
from scoring.certificates.issue import certify
from scoring.training.summary import (
    FORM,
    ShownBacktest,
    ShownBin,
    ShownGroup,
    ShownLabel,
    ShownModel,
    ShownScope,
    ShownShare,
    interval,
    read_backtest,
    read_serving,
    shown_lane,
    write_backtest,
    write_figures,
)
from tests.scoring.certificates.certified_cases import MODEL, NOW, TERMS, settled

SCOPE = ShownScope("logistic", 212, 0.81, 0.02, 0.05, (ShownBin(21, 0.9, 0.95, 0.8, 1.0),), 0.0)
DAMAGED = [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b" " * 2_000_000 + b"{}", b'{"form":"sunstead-figures/2"}']


def shown(certificate: Certificate | None = None) -> ShownModel:
    lane = shown_lane(certificate) if certificate else None
    return ShownModel(FORM, MODEL, NOW, 300, SCOPE, SCOPE, lane)


def backtest() -> ShownBacktest:
    groups = (ShownGroup("outside", 12, 3, 0.75), ShownGroup("newcomers", 4, 0, None), ShownGroup("all", 20, 4, 0.8))
    label = ShownLabel("label_clean_fix", date(2024, 1, 2), date(2025, 12, 30), groups, SCOPE.bins, (), ())
    return ShownBacktest("sunstead-backtest/2", NOW, 30, (label,))


def test_a_certified_lane_is_told_month_by_month_and_adds_up() -> None:
    certificate = certify(settled(), TERMS, {}, NOW)
    lane = shown_lane(certificate)
    assert lane.certified
    assert (lane.threshold, lane.n, lane.bad) == (0.95, certificate.found.n, certificate.found.k)
    assert sum(one.n for one in lane.months) == lane.n == 300
    assert sum(one.bad for one in lane.months) == lane.bad == 6
    months = [one.month for one in lane.months]
    assert months == sorted(set(months))
    assert (months[0], months[-1]) == ("2025-05", "2026-03")
    assert lane.low < lane.bad / lane.n < lane.high
    assert all(one.low <= one.bad / one.n <= one.high for one in lane.months)


def test_an_attempt_that_failed_shows_the_nearest_threshold_and_what_is_missing() -> None:
    lane = shown_lane(certify(settled(40), TERMS, {}, NOW))
    assert not lane.certified
    assert lane.need is not None
    assert lane.threshold == lane.need.threshold
    nothing = shown_lane(certify(settled(40, bad=np.ones(40)), TERMS, {}, NOW))
    assert (nothing.threshold, nothing.n, nothing.months) == (None, 0, ())
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_what_scores_lower_is_counted_on_either_side_of_t_low() -> None:
    scores = np.repeat([0.1, 0.3, 0.6, 0.95], [12, 12, 16, 300])
    bad = np.concatenate([np.arange(40) % 4 != 0, np.arange(300) % 50 == 7]).astype(float)
    certificate = certify(settled(340, scores=scores, bad=bad), TERMS, {}, NOW)
    lane = shown_lane(certificate, 0.3)
    assert lane.review
    assert lane.flagged
    assert (lane.threshold, lane.n) == (0.95, 300)
    assert (lane.flagged.n, lane.flagged.bad, lane.review.n, lane.review.bad) == (12, 9, 28, 21)
    assert lane.flagged.low < 0.75 < lane.flagged.high
    assert shown_lane(certificate).flagged == ShownShare(0, 0, 0.0, 1.0), "a T_LOW of 0 sends nobody to a person"


def test_where_nothing_is_certified_all_that_is_not_flagged_waits_for_a_review() -> None:
    lane = shown_lane(certify(settled(40), TERMS, {}, NOW), 0.3)
    assert lane.review
    assert lane.flagged
    assert (lane.review.n, lane.flagged.n) == (40, 0)


def test_many_pull_requests_of_one_author_do_not_narrow_an_interval() -> None:
    scores, bad = np.full(300, 0.5), (np.arange(300) < 60).astype(float)
    alone = shown_lane(certify(settled(scores=scores, bad=bad), TERMS, {}, NOW)).review
    few = shown_lane(certify(settled(scores=scores, bad=bad, authors=np.arange(300) // 30), TERMS, {}, NOW)).review
    assert alone
    assert few
    assert few.high - few.low > 2 * (alone.high - alone.low)


def test_an_audited_case_weighs_what_it_stands_for() -> None:
    lane = shown_lane(certify(settled(odds=np.full(300, 0.5)), TERMS, {}, NOW))
    assert (lane.n, lane.bad) == (600, 12)


@given(draw_from.floats(0, 1), draw_from.floats(0.5, 1e6), draw_from.floats(0.5, 1e6))
def test_an_interval_holds_the_rate_and_narrows_with_what_it_stands_for(rate: float, n: float, counts: float) -> None:
    low, high = interval(rate * n, n, counts)
    assert 0 <= low <= rate + 1e-6
    assert rate - 1e-6 <= high <= 1
    wider = interval(rate * n, n, counts / 4)
    assert wider[1] - wider[0] >= high - low - 1e-6


def test_the_figures_of_the_model_that_serves_are_read_back_and_those_of_another_are_not(tmp_path: Path) -> None:
    assert read_serving(tmp_path, "label_clean_fix") == (None, None)
    kept = shown(certify(settled(), TERMS, {}, NOW))
    write_figures(tmp_path, kept)
    assert read_serving(tmp_path, "label_clean_fix") == (None, None), "it does not serve by that"
    (tmp_path / "label_clean_fix.serving").write_text(f"{MODEL}\n")
    assert read_serving(tmp_path, "label_clean_fix") == (MODEL, kept)
    (tmp_path / "label_clean_fix.serving").write_text("cd" * 32)
    (tmp_path / f"{'cd' * 32}.figures.json").write_bytes((tmp_path / f"{MODEL}.figures.json").read_bytes())
    assert read_serving(tmp_path, "label_clean_fix") == ("cd" * 32, None)
    (tmp_path / "label_clean_fix.serving").write_text("../../etc/passwd")
    assert read_serving(tmp_path, "label_clean_fix") == (None, None)


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_file_reads_as_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "label_clean_fix.serving").write_text(MODEL)
    (tmp_path / f"{MODEL}.figures.json").write_bytes(data)
    (tmp_path / "backtest.json").write_bytes(data)
    assert read_serving(tmp_path, "label_clean_fix") == (MODEL, None)
    assert read_backtest(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "value"), [("told", 1.5), ("told", -0.1), ("n", -1), ("n", 10**13), ("came", "<b>"), ("low", None)]
)
def test_a_figure_out_of_its_range_is_not_believed(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "label_clean_fix.serving").write_text(MODEL)
    path = write_figures(tmp_path, shown())
    wrong = json.loads(path.read_text())
    wrong["change"]["bins"][0][name] = value
    path.write_text(json.dumps(wrong))
    assert read_serving(tmp_path, "label_clean_fix") == (MODEL, None)


def test_a_file_says_nothing_of_people_or_pull_requests() -> None:
    certificate = certify(settled(), TERMS, {}, NOW - timedelta(days=1))
    lane = str(shown_lane(certificate))
    assert not any(case.name in lane for case in certificate.cases)


def test_a_backtest_is_kept_whole_and_read_back(tmp_path: Path) -> None:
    assert read_backtest(tmp_path) is None
    write_backtest(tmp_path, backtest())
    write_backtest(tmp_path, backtest())
    assert read_backtest(tmp_path) == backtest()
    assert [file.name for file in tmp_path.iterdir()] == ["backtest.json"]
