"""How this broker is: whether it lives, whether it may be sent clients, and what is wrong.

What is found out (`Facts`) is apart from what it means (`judge`).
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Final

from barnabas.cluster.elections import needed
from barnabas.cluster.image import NO_CONTROLLER
from barnabas.cluster.service import Cluster
from barnabas.net.http import Answered
from barnabas.ports.clock import Clock
from barnabas.replica.service import Replicas

_NAMED_MAX: Final = 10
"""Partitions that are named; the others are counted."""

_LOOK_S: Final = 1.0
"""How old a look through all partitions may be: anybody may ask, as often as he likes."""


class Phase(Enum):
    """What a broker is about to do."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Partitions:
    """What a look through all partitions has found."""

    led: int = 0
    followed: int = 0
    under_min_isr: int = 0
    """Of those that are led here: nothing can be committed in them."""
    under_replicated: int = 0
    offline: int = 0
    """Whose files here are damaged, or that nobody leads."""
    named: tuple[str, ...] = ()
    """Some of those that are under `min.insync.replicas` or offline."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is so, as far as this broker knows."""

    broker: int
    phase: Phase
    failure: str | None
    """Why this process is about to end."""
    registered: bool
    controller: int
    log_dir: str
    complaint: str = ""
    """What keeps it from following the cluster, if it has for long."""
    partitions: Partitions = field(default_factory=Partitions)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What that means."""

    live: bool
    ready: bool
    status: str
    reasons: tuple[str, ...]


def judge(facts: Facts) -> Verdict:
    """Not live: the process should be started anew. Not ready: clients had better go elsewhere.
    Too few replicas are no reason for either: that others are missing is not mended by taking
    away those that are there."""
    reasons = []
    if facts.failure is not None:
        reasons.append(f"This broker has failed: {facts.failure}.")
    if facts.phase is not Phase.SERVING:
        reasons.append(f"This broker is {facts.phase.value}.")
    if not facts.registered:
        reasons.append("This broker is not registered, or out of touch with the cluster's store.")
    if facts.complaint:
        reasons.append(f"This broker does not follow the cluster any more: {facts.complaint}")
    if facts.controller == NO_CONTROLLER:
        reasons.append("No broker is known to be the controller.")
    is_ready = not reasons
    found = facts.partitions
    if found.under_min_isr:
        reasons.append(f"Partitions led here with too few replicas in sync: {found.under_min_isr}.")
    if found.offline:
        reasons.append(f"Partitions that are offline, or damaged here: {found.offline}.")
    if facts.failure is not None:
        status = "failed"
    elif not is_ready:
        status = "not ready"
    else:
        status = "degraded" if reasons else "ok"
    return Verdict(facts.failure is None, is_ready, status, tuple(reasons))


class Health:
    """Finds out, and says."""

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        replicas: Replicas,
        clock: Clock,
        failure: Callable[[], str | None],
    ) -> None:
        self.phase = Phase.STARTING
        self._node_id = node_id
        self._cluster = cluster
        self._replicas = replicas
        self._clock = clock
        self._failure = failure
        self._looked_s = float("-inf")
        self._partitions = Partitions()

    def answer(self, path: str) -> Answered | None:
        """What is said at a path of the health listener."""
        match path:
            case "/health/live":
                verdict = judge(self.facts())
                return _answered(verdict.live, {"live": verdict.live})
            case "/health/ready":
                verdict = judge(self.facts())
                return _answered(verdict.ready, {"ready": verdict.ready})
            case "/health" | "/health/":
                return self._everything()
            case _:
                return None

    def _everything(self) -> Answered:
        facts = self.facts(look=True)
        verdict, found = judge(facts), asdict(facts.partitions)
        log_dir = {"path": facts.log_dir, "usable": facts.failure is None}
        document = {
            "status": verdict.status,
            "live": verdict.live,
            "ready": verdict.ready,
            "reasons": verdict.reasons,
            "broker": facts.broker,
            "phase": facts.phase.value,
            "registered": facts.registered,
            "controller": None if facts.controller == NO_CONTROLLER else facts.controller,
            "partitions": found,
            "log_dirs": [log_dir],
        }
        return _answered(verdict.ready, document)

    def facts(self, *, look: bool = False) -> Facts:
        """What is so now; `look`: also what of the partitions."""
        cluster = self._cluster
        is_loaded = cluster.is_started
        controller = cluster.image.controller_id if is_loaded else NO_CONTROLLER
        if is_loaded and controller not in cluster.image.brokers:
            controller = NO_CONTROLLER
        return Facts(
            broker=self._node_id,
            phase=self.phase,
            failure=self._failure(),
            registered=is_loaded and cluster.in_touch() and self._node_id in cluster.image.brokers,
            controller=controller,
            log_dir=self._replicas.store.root,
            complaint=cluster.complaint,
            partitions=self._look() if look and is_loaded else Partitions(),
        )

    def _look(self) -> Partitions:
        now_s = self._clock.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s, self._partitions = now_s, self._look_through()
        return self._partitions

    def _look_through(self) -> Partitions:
        led = followed = short = under = 0
        offline: list[str] = []
        too_few: list[str] = []
        alive = self._cluster.image.brokers
        for name, hosted in self._replicas.by_name.items():
            offline += [f"{name}-{index}" for index in hosted.damaged]
            minimum = hosted.topic.config.min_insync_replicas
            for index, partition in hosted.partitions.items():
                state = partition.state
                if state.leader not in alive:
                    offline.append(f"{name}-{index}")
                if not partition.is_leader:
                    followed += 1
                    continue
                led += 1
                # A replica that is being made by a move is not missed yet.
                under += not set(state.settled) <= set(state.isr)
                if len(state.isr) < needed(state, minimum):
                    short += 1
                    too_few.append(f"{name}-{index}")
        named = tuple((too_few + offline)[:_NAMED_MAX])
        return Partitions(led, followed, short, under, len(offline), named)


def _answered(good: bool, document: dict[str, object]) -> Answered:
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return Answered(status, json.dumps(document, ensure_ascii=True).encode("ascii") + b"\n")
