"""What judges in one pass: the settings, the model that serves, the starter model, and the thresholds that follow.

Model files are read once and kept; a new one is found by the next pass without a restart.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.transaction import Rows
from scoring.decisions import to_json
from scoring.gate import GATE_VERSION
from scoring.lane_certificates import CERTIFICATES, Certificates, thresholds_of
from scoring.policy import Policy
from scoring.repository_settings import RepositorySettings
from scoring.rules import Thresholds
from scoring.serving import Serving, version_of
from scoring.starter import Borrowing, Starter

SERVING: dict[Path, Serving] = {}  # by the folder of models
BORROWING: dict[Path, Borrowing] = {}  # by the file of the starter model
STANDING_CERTIFICATES: dict[Path, Certificates] = {}  # by their folder


@dataclass(frozen=True, slots=True)
class Ruling:
    """The policy, the model that serves (None: the shrunk rate does), and the starter model that orders the queue
    (None: a model of one's own serves, or there is none)."""

    policy: Policy
    served: Any
    starter: Starter | None

    @classmethod
    def of(cls, policy: Policy) -> "Ruling":
        """What judges now."""
        served = None if policy.models is None else SERVING.setdefault(policy.models, Serving(policy.models)).model()
        if served is not None or policy.starter is None:
            return cls(policy, served, None)
        return cls(policy, None, BORROWING.setdefault(policy.starter, Borrowing(policy.starter)).starter())

    def of_judgements(self) -> str:
        """Everything but what is known that a judgement depends on, in 16 hex digits."""
        settings = replace(self.policy, audit_key=b"", models=None, starter=None)
        told = [settings, version_of(self.served), GATE_VERSION]
        return hashlib.sha256(to_json(told).encode()).hexdigest()[:16]

    def of_pass(self) -> str:
        """What a whole pass depends on: the rules of every judgement, and what its order is borrowed from."""
        return f"{self.of_judgements()}{self.starter.name if self.starter else ''}"

    def thresholds(self, rows: Rows, own: Mapping[int, RepositorySettings], now: datetime) -> dict[int, Thresholds]:
        """The thresholds of each watched repository and of the site (0)."""
        if self.policy.models is None or self.served is None:
            return thresholds_of(rows, (), "", self.policy, own, now)
        folder = self.policy.models / CERTIFICATES
        standing = STANDING_CERTIFICATES.setdefault(folder, Certificates(folder))
        return thresholds_of(rows, standing.all(), self.served.name, self.policy, own, now)
