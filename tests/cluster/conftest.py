"""What the tests of the cluster share: chance from a seed, and images without a store."""

import random
import uuid
from collections.abc import Callable

import pytest

from barnabas.cluster.image import BrokerNode, Image
from barnabas.config.broker_config import BrokerConfig
from barnabas.ports.entropy import Entropy


class SeededEntropy:
    """The same values for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128) | 1)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def sometimes(self, name: str) -> bool:
        return False


@pytest.fixture
def entropy() -> Entropy:
    return SeededEntropy()


@pytest.fixture(scope="session")
def seeded() -> Callable[[int], Entropy]:
    return SeededEntropy


@pytest.fixture
def make_image() -> Callable[..., Image]:
    def make(brokers: int = 1, **settings: str) -> Image:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        return Image(
            cluster_id="c",
            controller_id=0,
            brokers={n: BrokerNode(n, "localhost", 9092 + n) for n in range(brokers)},
            config=BrokerConfig(dotted),
        )

    return make
