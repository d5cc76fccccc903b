"""A catalogue of the features that a model may know of a pull request at its opening. Pure.

The people who can move a feature decide how it may act: a feature that its author moves alone, even by waiting, may
lower P(clean), but never raise it. `self` is the author, also with a second account; `voucher` are people who vouch or
denounce along the trust flow; `push-holder` are those who merge or refuse in the repositories that count, and so make
the author's record; `network` is everybody else, as for the usual figures of a repository. Where strangers' pull
requests count in those figures, waiting or refused, the direction lets them only lower.
"""

from dataclasses import dataclass
from typing import Literal

Mover = Literal["self", "voucher", "push-holder", "network"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One column with its description, its unit, and the people who can move it.

    `direction`: 1 where more of it never speaks against a person, -1 where more never speaks for them, 0 for either.
    `of`: what a model weighs it for, the person at that moment (in that repository), or the change alone.
    """

    name: str
    words: str
    unit: str
    direction: Literal[-1, 0, 1]
    moved_by: Mover
    of: Literal["person", "change"] = "person"


FEATURES: tuple[Feature, ...] = (
    Feature("structural_trust", "trust that reaches them from the maintainers along vouches", "0 to 1", 1, "voucher"),
    # One's own vouches move it, up to 3.6 times.
    Feature(
        "eigentrust_score", "their share of a walk along vouches that begins at the site's seeds", "0 to 1", 1, "self"
    ),
    Feature("trust_distance", "vouches between them and the nearest maintainer", "vouches", -1, "voucher"),
    Feature("denounce_count", "trusted people who denounce them", "people", -1, "voucher"),
    Feature("merged_pr_count", "their pull requests that were merged, everywhere", "pull requests", 1, "push-holder"),
    Feature(
        "merged_here", "their pull requests that were merged in this repository", "pull requests", 1, "push-holder"
    ),
    Feature(
        "merged_elsewhere",
        "their pull requests that were merged in other repositories",
        "pull requests",
        1,
        "push-holder",
    ),
    Feature(
        "refused_here",
        "their pull requests that were closed, or left for 180 days, in this repository",
        "pull requests",
        -1,
        "push-holder",
    ),
    Feature(
        "share_of_merges_here",
        "their share of everything that was merged in this repository",
        "0 to 1",
        1,
        "push-holder",
    ),
    Feature(
        "merge_rate_here",
        "the share of their pull requests merged here, drawn towards the usual one where few are settled",
        "0 to 1",
        1,
        "push-holder",
    ),
    Feature(
        "recent_merge_rate_here",
        "the share of their pull requests merged here, newer ones counting more, drawn towards the usual one",
        "0 to 1",
        0,
        "self",
    ),
    Feature(
        "merge_rate_elsewhere",
        "the share of their pull requests merged elsewhere, drawn towards the usual one where few are settled",
        "0 to 1",
        1,
        "push-holder",
    ),
    Feature(
        "close_without_merge_ratio",
        "the share of their pull requests not merged, drawn towards the usual one where few are settled",
        "0 to 1",
        -1,
        "push-holder",
    ),
    Feature("revert_rate", "the share of their merges that were taken back", "0 to 1", -1, "push-holder"),
    Feature(
        "patched_rate_here",
        "the share of their merges in this repository whose lines were soon changed again",
        "0 to 1",
        -1,
        "push-holder",
    ),
    Feature(
        "fix_rate_here",
        "the share of their merges in this repository that soon needed a fix",
        "0 to 1",
        -1,
        "push-holder",
    ),
    Feature(
        "hours_to_merge_here",
        "how long their pull requests in this repository took to be merged",
        "hours",
        -1,
        "push-holder",
    ),
    Feature("ci_pass_rate", "the share of their rounds that passed the checks", "0 to 1", 1, "self"),
    Feature("mean_diff_size", "lines changed by their merged pull requests", "lines", 0, "push-holder"),
    Feature("mean_files_touched", "files changed by their merged pull requests", "files", 0, "push-holder"),
    Feature("churn", "lines that their merged pull requests changed during the last year", "lines", 0, "self"),
    Feature("mean_discussion_len", "length of a comment by others on their pull requests", "characters", 0, "self"),
    Feature("days_since_merge_here", "since their last merge in this repository", "days", 0, "self"),
    Feature("days_since_merge", "since their last merge anywhere", "days", 0, "self"),
    Feature("open_here", "their pull requests in this repository that nobody has settled", "pull requests", 0, "self"),
    Feature("opened_in_month", "pull requests that they opened during the last 30 days", "pull requests", 0, "self"),
    Feature("push_holder", "they have push access to this repository", "yes or no", 1, "push-holder"),
    Feature("did_age_days", "age of their identity", "days", 0, "self"),
    Feature("did_in_directory", "their identity is in the public directory (did:plc)", "yes or no", 0, "self"),
    Feature("handle_changes", "how often they changed their handle", "changes", 0, "self"),
    Feature("account_changes", "how often they changed server or keys", "changes", 0, "self"),
    Feature("bsky_graph_degree", "followers and follows on Bluesky", "accounts", 0, "self"),
    Feature("bsky_account_age", "age of their Bluesky account", "days", 0, "self"),
    Feature(
        "repository_merge_rate",
        "the share of other people's pull requests in this repository that were merged lately",
        "0 to 1",
        1,
        "network",
    ),
    Feature(
        "repository_patched_rate",
        "the share of merges in this repository whose lines were soon changed again",
        "0 to 1",
        0,
        "network",
    ),
    Feature(
        "repository_fix_rate", "the share of merges in this repository that soon needed a fix", "0 to 1", 0, "network"
    ),
    Feature("repository_hours_to_merge", "how long a merge takes in this repository", "hours", 0, "network"),
    # How busy a repository is at the moment is no property of a person, and a backlog would lower everybody's chance.
    # Weighed with a change alone they cost nothing: AUC of the gate's chance .818 and .817 (merge), .789 and .789.
    Feature(
        "repository_pace", "pull requests merged in this repository lately", "pull requests", 0, "network", "change"
    ),
    Feature(
        "repository_open",
        "pull requests in this repository that nobody has settled",
        "pull requests",
        -1,
        "network",
        "change",
    ),
    Feature("repository_days_since_merge", "since the last merge in this repository", "days", -1, "network", "change"),
    Feature("lines_changed", "lines that the change adds and deletes", "lines", 0, "self", "change"),
    Feature("lines_per_file", "lines that it changes in a file on average", "lines", 0, "self", "change"),
    Feature("share_added", "the share of its lines that are new", "0 to 1", 0, "self", "change"),
    Feature("size_against_usual", "its size against their merged ones", "times", 0, "self", "change"),
    Feature("lines_added", "lines that the change adds", "lines", 0, "self", "change"),
    Feature("lines_deleted", "lines that the change deletes", "lines", 0, "self", "change"),
    Feature("files_touched", "files that the change touches", "files", 0, "self", "change"),
    Feature("binary_files", "files without lines that the change touches", "files", 0, "self", "change"),
    Feature("touches_tests", "the change touches tests", "yes or no", 0, "self", "change"),
    Feature("docs_only", "the change touches nothing but documentation", "yes or no", 0, "self", "change"),
    Feature(
        "touches_sensitive", "the change touches what a person should always read", "yes or no", 0, "self", "change"
    ),
    Feature("title_length", "the length of its title", "characters", 0, "self", "change"),
    Feature("title_is_default", "its title is what a web editor suggests", "yes or no", 0, "self", "change"),
    Feature("title_tells_fix", "its title speaks of a fix", "yes or no", 0, "self", "change"),
    Feature("title_tells_docs", "its title speaks of documentation", "yes or no", 0, "self", "change"),
    Feature("title_tells_new", "its title speaks of something new", "yes or no", 0, "self", "change"),
    Feature("title_names_code", "its title names something in the code", "yes or no", 0, "self", "change"),
)
