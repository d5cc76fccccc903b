"""What the pages told of roles, brought into the worker's file: whoever judges for a repository is a seed there."""

from ingest.store import Store
from ingest.watch import set_maintainer


def tell_role(store: Store, did: str, repo_key: str, is_maintainer: bool) -> None:
    """Make a person a seed of the repository, or of the site (""), or take it back; everybody is judged anew.

    Again is harmless. Raises ValueError where the repository is not known.
    """
    set_maintainer(store, did, repo_key, is_maintainer)
