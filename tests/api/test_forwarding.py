"""What only the controller decides is handed on to it, and its answer handed back."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.api.conftest import KEYS, House, build, plain

from barnabas.api import forwarding
from barnabas.api.context import Services
from barnabas.api.forwarding import FORWARDED, FORWARDER, forwarded
from barnabas.cluster.image import BrokerNode, Image
from barnabas.config.broker_config import BrokerConfig
from barnabas.link.pool import LinkPool
from barnabas.model.errors import DecodeError
from barnabas.net.listener import Listener
from barnabas.ports.exchange import Dispatch, Frames, Peer, Reply
from barnabas.wire.headers import parse_request_header, request_header
from barnabas.wire.messages import encode_request, version_type

CREATE, VERSION = 19, 7
HERE = b"an answer of our own"


@dataclass
class Elsewhere:
    """A broker that is not the controller, as far as forwarding needs it."""

    image: Image
    links: LinkPool
    node_id: int = 2
    is_controller: bool = False

    @property
    def cluster(self) -> "Elsewhere":
        return self


def image(controller: int, address: tuple[str, int]) -> Image:
    brokers = {1: BrokerNode(1, *address)}
    config = BrokerConfig({})
    return Image(cluster_id="c", controller_id=controller, brokers=brokers, config=config)


def request(client_id: str = "somebody") -> bytearray:
    topic = {"name": "events", "num_partitions": 3, "replication_factor": 1}
    message = build(version_type(CREATE, VERSION, "request"), {"topics": [topic]})
    head = request_header(CREATE, VERSION, 42, client_id)
    return bytearray(head + encode_request(CREATE, VERSION, message))


def ask(
    house: House,
    frame: bytearray,
    *,
    patch: Callable[[Elsewhere], object] | None = None,
    dispatch: Dispatch | None = None,
) -> Any:
    """Hand the request on from another broker to the house, over a real connection."""

    async def here(copy: memoryview) -> Frames:
        assert bytes(copy) == sent
        return [HERE]

    async def main() -> Any:
        listener = Listener(dispatch or house.dispatch)
        address = await listener.start("127.0.0.1", 0)
        there = Elsewhere(image(1, address), LinkPool(lambda _: address, FORWARDER))
        if patch is not None:
            patch(there)
        try:
            header = parse_request_header(memoryview(frame))
            answer = forwarded(cast(Services, there), header, memoryview(frame), here)
            frame[:] = bytes(len(frame))  # Its memory is used again at once.
            return b"".join(await answer)
        finally:
            await there.links.close()
            await listener.stop(0)

    sent = bytes(frame)
    return house.run(main())


def test_the_controllers_answer_comes_back_with_the_askers_number(house: House) -> None:
    answer = ask(house, request())
    assert answer[:4] == (42).to_bytes(4, "big")
    (topic,) = plain(house._read(CREATE, VERSION, answer))["topics"]
    assert (topic["name"], topic["error_code"]) == ("events", "none")
    assert len(house.cluster.image.topics["events"].partitions) == 3


def test_a_controller_that_is_elected_meanwhile_is_waited_for(house: House) -> None:
    def patch(there: Elsewhere) -> None:
        known, there.image = there.image, image(-1, ("127.0.0.1", 1))
        asyncio.get_running_loop().call_later(0.15, lambda: setattr(there, "image", known))

    assert ask(house, request(), patch=patch)[:4] == (42).to_bytes(4, "big")


def test_one_who_is_not_the_controller_any_more_is_asked_until_somebody_is(house: House) -> None:
    house.cluster._office.resign()
    asked = []

    def dispatch(peer: Peer, frame: memoryview) -> Reply:
        asked.append(parse_request_header(frame).client_id)
        if asked.count(FORWARDER) == 2:
            house.cluster._office.held = True
        return house.dispatch(peer, frame)

    answer = ask(house, request(), dispatch=dispatch)
    (topic,) = plain(house._read(CREATE, VERSION, answer))["topics"]
    assert (topic["name"], topic["error_code"]) == ("events", "none")
    assert asked.count(FORWARDER) == 2


def test_who_becomes_the_controller_answers_itself(house: House) -> None:
    def patch(there: Elsewhere) -> None:
        there.image = image(there.node_id, ("127.0.0.1", 1))
        asyncio.get_running_loop().call_later(0.15, lambda: setattr(there, "is_controller", True))

    assert ask(house, request(), patch=patch) == HERE


def test_when_no_controller_can_be_asked_the_answer_is_given_here(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patch(there: Elsewhere) -> None:
        there.links = LinkPool(lambda _: None, FORWARDER)

    monkeypatch.setattr(forwarding, "_PATIENCE_S", 0.3)
    assert ask(house, request(), patch=patch) == HERE


def test_a_controller_that_does_not_answer_ends_the_connection(house: House) -> None:
    def dispatch(peer: Peer, frame: memoryview) -> Reply:
        if parse_request_header(frame).api_key == CREATE:
            raise DecodeError("nothing is to be said to that")
        return house.dispatch(peer, frame)

    with pytest.raises(DecodeError, match="the controller, broker 1, did not answer"):
        ask(house, request(), dispatch=dispatch)


def test_what_is_handed_on_is_served_here() -> None:
    assert set(KEYS.values()) >= FORWARDED
