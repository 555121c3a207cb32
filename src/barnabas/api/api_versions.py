"""ApiVersions: v0-4

Behaviour: the versions of every API in `table.py`, and two features, finalized for good:
group.version 1, which says that consumer groups (KIP-848) are served, and transaction.version 2,
which says that every transaction has an epoch of its own (KIP-890). A client that speaks a newer
version of this very message is answered in version 0 with UNSUPPORTED_VERSION and the one row it
needs to ask again (KIP-511). What the client calls itself is remembered for its connection.

Version notes: v1 throttle time. v3 flexible (but never its header), client software, features.
v4 features may begin at version 0; before, those that do are left out, as older clients fail
on them.
"""

import re
from dataclasses import replace
from typing import Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from barnabas.api.context import Call
from barnabas.api.table import SERVED
from barnabas.api.typed import NO_THROTTLE, i16, i64
from barnabas.model.errors import ErrorCode
from barnabas.wire.apis import API_VERSIONS, APIS, advertised_min

_SOFTWARE_FROM: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_FEATURES_FROM_0: Final = 4
_FEATURES: Final = {"group.version": 1, "transaction.version": 2}
_SUPPORTED: Final = tuple(
    SupportedFeatureKey(name=name, min_version=i16(0), max_version=i16(level))
    for name, level in _FEATURES.items()
)
_FINALIZED: Final = tuple(
    FinalizedFeatureKey(name=name, max_version_level=i16(level), min_version_level=i16(level))
    for name, level in _FEATURES.items()
)
_SOFTWARE_CHARS_MAX: Final = 100
"""How much of a client's name is kept for its connection."""


def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table, as the client may use it."""
    if call.version >= _SOFTWARE_FROM:
        told = (request.client_software_name, request.client_software_version)
        if not all(map(_SOFTWARE.fullmatch, told)):
            return _answer(ErrorCode.invalid_request, ())
        call.peer.software = " ".join(part[:_SOFTWARE_CHARS_MAX] for part in told)
    answer = _answer(ErrorCode.none, tuple(_row(key) for key in SERVED))
    return replace(
        answer,
        supported_features=_SUPPORTED if call.version >= _FEATURES_FROM_0 else (),
        finalized_features_epoch=i64(0),
        finalized_features=_FINALIZED,
    )


def unsupported_version() -> ApiVersionsResponse:
    """The answer for a version of ApiVersions that is not spoken here."""
    return _answer(ErrorCode.unsupported_version, (_row(API_VERSIONS),))


def _row(key: int) -> ApiVersion:
    api = APIS[key]
    return ApiVersion(
        api_key=i16(key),
        min_version=i16(advertised_min(api)),
        max_version=i16(api.max_version),
    )


def _answer(error: ErrorCode, rows: tuple[ApiVersion, ...]) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error, api_keys=rows, throttle_time=NO_THROTTLE)
