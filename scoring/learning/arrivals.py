"""How merges arrive over time, estimated where many pull requests are still open: survival curves in steps of an hour.

Kaplan and Meier's estimator, and Aalen and Johansen's where a wait may end in two ways. Pure NumPy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
HOURS = 24 * 730  # whatever ends later ends with the last step; of 8,653 real merges 13 took longer
GROUP = 200  # cases below which a group takes the curve of everybody


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`later[g, h]`: chance in [0, 1] that a case of group g that waits after hour h still ends well."""

    later: Floats  # (2, HOURS + 1)

    def chance(self, waited: Floats, group: NDArray[np.bool_]) -> Floats:
        """For cases that have waited so many hours; 0 for NaN."""
        return np.where(np.isnan(waited), 0.0, self.later[group.astype(np.int64), _steps(waited)])


def estimate_arrivals(ended: Floats, watched: Floats, worth: Floats, group: NDArray[np.bool_]) -> Arrivals:
    """How waits end, in each of two groups.

    `ended`: hours after which a case ended, NaN where it still waits; `watched`: hours for which it was watched;
    `worth`: in [0, 1], how far that end was a good one (0 for a refusal). A group of fewer than GROUP cases is given
    the curve of everybody.
    """
    everybody = _later(ended, watched, worth)
    curves = []
    for members in (~group, group):
        few = np.count_nonzero(members) < GROUP
        curves.append(everybody if few else _later(ended[members], watched[members], worth[members]))
    return Arrivals(np.stack(curves))


def chance_of_quiet(troubled: Floats, watched: Floats, window: int) -> Floats:
    """The chance to reach the end of a window of so many hours without trouble, for n merges of which some had it.

    `troubled`: hours from the merge to trouble, NaN for none; `watched`: hours for which a merge was watched, NaN where
    there was none. 1 for a window that is over, and for NaN.
    """
    merged = ~np.isnan(watched)
    hurt = merged & (troubled <= window)
    last = np.minimum(_steps(np.where(hurt, troubled, watched))[merged], window)
    failed = np.bincount(last[hurt[merged]], minlength=window + 1)
    at_risk = np.cumsum(np.bincount(last, minlength=window + 1)[::-1])[::-1]
    stays = 1 - failed / np.maximum(at_risk, 1)
    # Of a merge watched through hour h, what the hours after h leave.
    after = np.append(np.cumprod(stays[::-1])[::-1][1:], 1.0)
    return np.where(merged, after[np.minimum(_steps(watched), window)], 1.0)


def _later(ended: Floats, watched: Floats, worth: Floats) -> Floats:
    """One curve: from the last hour back, what ends well in the next hour and what goes on waiting."""
    has_ended = ~np.isnan(ended)
    last = _steps(np.where(has_ended, ended, watched))
    ends = np.bincount(last[has_ended], minlength=HOURS + 1)
    good = np.bincount(last[has_ended], weights=worth[has_ended], minlength=HOURS + 1)
    at_risk = np.maximum(np.cumsum(np.bincount(last, minlength=HOURS + 1)[::-1])[::-1], 1)
    well, goes_on = (good / at_risk).tolist(), (1 - ends / at_risk).tolist()
    later = [0.0] * (HOURS + 1)
    for hour in range(HOURS, 0, -1):
        later[hour - 1] = well[hour] + goes_on[hour] * later[hour]
    return np.clip(later, 0.0, 1.0)


def _steps(hours: Floats) -> NDArray[np.int64]:
    """The step of each number of hours, 0 for NaN and for what is negative."""
    return np.clip(np.nan_to_num(hours, nan=0.0), 0, HOURS).astype(np.int64)
