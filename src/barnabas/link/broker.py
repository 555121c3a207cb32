"""A blocking link to one broker, with the versions that both sides speak."""

from functools import cached_property
from types import TracebackType
from typing import Any, Final, Self

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.apis import API_VERSIONS, APIS

_FEATURES_FROM: Final = 3
"""The first version of ApiVersions that tells features (KIP-584)."""


class Broker:
    """One broker. Any error but KafkaError leaves it closed: open another.

    Raises what Link raises, and KafkaError(UNSUPPORTED_VERSION) for what it can not be asked.
    """

    def __init__(self, link: Link) -> None:
        self.link: Final = link
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self.link.close()

    @cached_property
    def versions(self) -> dict[int, int]:
        """The newest version of each API that both sides speak."""
        from kio.schema.api_versions.v0.request import ApiVersionsRequest

        answer = self._call(API_VERSIONS, 0, ApiVersionsRequest())
        found = {}
        for theirs in answer.api_keys:
            ours = APIS.get(theirs.api_key)
            if ours is not None:
                newest = min(ours.max_version, theirs.max_version)
                if newest >= max(ours.min_version, theirs.min_version):
                    found[ours.key] = newest
        return found

    @cached_property
    def features(self) -> dict[str, int]:
        """The level of each feature that the cluster has agreed on, such as transaction.version."""
        if self.versions.get(API_VERSIONS, 0) < _FEATURES_FROM:
            return {}
        from kio.schema.api_versions.v3.request import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name="barnabas", client_software_version="unknown"
        )
        answer = self._call(API_VERSIONS, _FEATURES_FROM, request)
        return {each.name: each.max_version_level for each in answer.finalized_features}

    def speaks(self, api_key: int) -> bool:
        """Whether it can be asked this at all."""
        return api_key in self.versions

    def version(self, api_key: int, *, at_most: int | None = None) -> int:
        """The version to ask in: the newest of both sides, or an older one where that is meant."""
        newest = self.versions.get(api_key)
        if newest is None:
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"the broker does not know {APIS[api_key].name} requests",
            )
        return newest if at_most is None else min(newest, at_most)

    def ask(self, api_key: int, request: Any, *, at_most: int | None = None) -> Any:
        """The answer, in its newest form; the request too is in its newest form."""
        return self._call(api_key, self.version(api_key, at_most=at_most), request)

    def _call(self, api_key: int, version: int, request: Any) -> Any:
        try:
            return self.link.call(api_key, version, request)
        except BaseException:
            # Also when interrupted: the answer that is still to come belongs to nobody.
            self.close()
            raise
