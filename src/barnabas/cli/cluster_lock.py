"""One operator's command at a time in a cluster: whoever runs one is the only member of a group.

Any Kafka can do that, the group is told by `barnabas group describe`, and a command that dies is
forgotten when its session ends.
"""

import datetime
import json
import os
import socket
import threading
import time
from typing import Any, Final, Self

from barnabas.cli.brokers import Broker, NoAnswerError, check, error_name
from barnabas.cli.cluster_link import ClusterLink
from barnabas.model.errors import BarnabasError, ErrorCode

GROUP: Final = "barnabas-operator"
SESSION_S: Final = 12.0
_HEARTBEAT_S: Final = 3.0
_COORDINATOR_S: Final = 30.0
"""So long a coordinator may be missing: the topic of groups may have to be made first."""
_PAUSE_S: Final = 0.3
_PROTOCOL: Final = "operator"
_FIND_COORDINATOR, _JOIN, _HEARTBEAT, _LEAVE, _SYNC, _DESCRIBE = 10, 11, 12, 13, 14, 15
_ELSEWHERE: Final = (
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
)
_WAIT_S: Final = 60.0
_FORGOTTEN: Final = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation)


class _RefusedError(BarnabasError):
    """Another command runs."""


class _AgainError(BarnabasError):
    """The coordinator is another, or not ready yet."""


class OperatorLock:
    """`with OperatorLock(bootstrap, "drain 3"): …`; BarnabasError when another command runs."""

    def __init__(self, bootstrap: str, what: str) -> None:
        self._bootstrap = bootstrap
        self._note = json.dumps(
            {"command": what, "host": socket.gethostname(), "process": os.getpid()}
        ).encode()
        self._link = ClusterLink(bootstrap)
        self._member = ""
        self._generation = -1
        self._holds = False
        self._heard_s = 0.0
        self._lost: BarnabasError | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._stay, name="operator's lock", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._link.metadata()
            self._acquire()
        except BaseException:
            self._link.close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        try:
            # What was done may have moved the coordinator just now.
            self._patiently(self._leave_at, SESSION_S)
        except BarnabasError:
            pass  # Nobody coordinates: the session's end frees it.
        finally:
            self._link.close()

    def _acquire(self) -> None:
        self._patiently(self._check_nobody_runs)
        self._patiently(self._join)
        self._holds, self._heard_s = True, time.monotonic()

    def check(self) -> None:
        """BarnabasError when another command may be running, because this one was forgotten."""
        deadline = time.monotonic() + _WAIT_S
        # After a silence of a session, such as Ctrl-Z, nobody knows before the next heartbeat.
        while self._lost is None and time.monotonic() - self._heard_s > SESSION_S:
            if time.monotonic() > deadline:
                raise BarnabasError(
                    f"Nobody has coordinated groups for {_WAIT_S:g} s, so another command may be "
                    "running by now: run this one again when `barnabas cluster status` is healthy."
                )
            time.sleep(_PAUSE_S)
        if self._lost is not None:
            raise BarnabasError(
                f"This command was away for too long, and another has begun: {self._lost}"
            )

    def _patiently(self, step: Any, within_s: float = _COORDINATOR_S) -> None:
        deadline = time.monotonic() + within_s
        while True:
            try:
                self._ask_coordinator(step)
                return
            except (_AgainError, NoAnswerError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)

    def _ask_coordinator(self, step: Any) -> None:
        self._link.at(self._link.any(_coordinator), step)

    def _check_nobody_runs(self, broker: Broker) -> None:
        from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
        from kio.schema.types import GroupId

        request = DescribeGroupsRequest(
            groups=(GroupId(GROUP),), include_authorized_operations=False
        )
        (group,) = broker.ask(_DESCRIBE, request).groups
        if group.error_code is ErrorCode.group_id_not_found:
            return
        _again_or_check("Look for other commands", group.error_code)
        # One that tells the same is this command, before its link broke.
        others = [each for each in group.members if each.member_metadata != self._note]
        if others:
            raise _refusal(others[0].member_metadata)

    def _join(self, broker: Broker) -> None:
        """Become the only member, or leave again; who holds it stays, and the other one leaves."""
        joined = self._ask_to_join(broker)
        if joined.error_code is ErrorCode.member_id_required:
            self._member = joined.member_id
            joined = self._ask_to_join(broker)
        _again_or_check("Begin", joined.error_code)
        self._member, self._generation = joined.member_id, joined.generation_id
        others = [each for each in joined.members if each.member_id != self._member]
        if not self._holds and (others or joined.leader != self._member):
            self._leave_at(broker)
            raise _refusal(others[0].metadata if others else b"")
        self._sync(broker)

    def _ask_to_join(self, broker: Broker) -> Any:
        from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
        from kio.schema.types import GroupId

        session = _seconds(SESSION_S)
        return broker.ask(
            _JOIN,
            JoinGroupRequest(
                group_id=GroupId(GROUP),
                session_timeout=session,
                rebalance_timeout=session,
                member_id=self._member,
                protocol_type="barnabas",
                protocols=(JoinGroupRequestProtocol(name=_PROTOCOL, metadata=self._note),),
            ),
        )

    def _sync(self, broker: Broker) -> None:
        from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
        from kio.schema.types import GroupId
        from kio.static.primitive import i32

        answer = broker.ask(
            _SYNC,
            SyncGroupRequest(
                group_id=GroupId(GROUP),
                generation_id=i32(self._generation),
                member_id=self._member,
                protocol_type="barnabas",
                protocol_name=_PROTOCOL,
                assignments=(
                    SyncGroupRequestAssignment(member_id=self._member, assignment=b"runs"),
                ),
            ),
        )
        _again_or_check("Begin", answer.error_code)

    def _stay(self) -> None:
        """Be heard of until the end. Brokers that come and go meanwhile are no reason to stop."""
        while not self._ending.wait(_HEARTBEAT_S):
            try:
                self._ask_coordinator(self._heartbeat)
                self._heard_s = time.monotonic()
            except _RefusedError as error:
                self._lost = error
                return
            except BarnabasError:
                continue

    def _heartbeat(self, broker: Broker) -> None:
        from kio.schema.heartbeat.v4.request import HeartbeatRequest
        from kio.schema.types import GroupId
        from kio.static.primitive import i32

        request = HeartbeatRequest(
            group_id=GroupId(GROUP), generation_id=i32(self._generation), member_id=self._member
        )
        code = broker.ask(_HEARTBEAT, request).error_code
        if code is ErrorCode.unknown_member_id:
            # Silent for longer than a session: it is taken again, unless somebody else has it.
            self._member, self._holds = "", False
            self._check_nobody_runs(broker)
            self._join(broker)
            self._holds = True
        elif code in (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation):
            # Somebody joins at the same time: they see us, and leave.
            self._join(broker)
            self._holds = True
        else:
            _again_or_check("Stay", code)

    def _leave_at(self, broker: Broker) -> None:
        from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
        from kio.schema.types import GroupId

        identity = MemberIdentity(member_id=self._member)
        request = LeaveGroupRequest(group_id=GroupId(GROUP), members=(identity,))
        answer = broker.ask(_LEAVE, request)
        for code in (answer.error_code, *(each.error_code for each in answer.members)):
            if code not in _FORGOTTEN:
                _again_or_check("End", code)


def _coordinator(broker: Broker) -> tuple[str, int]:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

    (found,) = broker.ask(
        _FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=(GROUP,))
    ).coordinators
    _again_or_check("Find who keeps the group of commands", found.error_code)
    return str(found.host), int(found.port)


def _again_or_check(what: str, code: ErrorCode) -> None:
    if code in _ELSEWHERE:
        raise _AgainError(
            f"{what}: nobody coordinates groups at the moment ({error_name(code)}); try again when "
            "`barnabas cluster status` shows no partition of __consumer_offsets without a leader."
        )
    check(what, code)


def _refusal(note: bytes) -> _RefusedError:
    try:
        facts = json.loads(note)
        who = (
            f"`barnabas cluster {facts['command']}` is running (on {facts['host']}, process "
            f"{facts['process']})"
        )
    except (ValueError, KeyError, TypeError):
        who = "Another command of `barnabas cluster` is running"
    return _RefusedError(
        f"{who}: wait for its end or stop it there with Ctrl-C; one that was killed is forgotten "
        f"after {SESSION_S:g} s."
    )


def _seconds(seconds: float) -> Any:
    from kio.static.primitive import i32Timedelta

    return i32Timedelta.parse(datetime.timedelta(seconds=seconds))
