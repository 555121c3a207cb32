"""UpdateFeatures, with an answer for each feature."""

from dataclasses import dataclass

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2 import response


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatableFeatureResult:
    """What became of one feature, told in versions 0 and 1."""

    feature: str
    error_code: ErrorCode
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(response.UpdateFeaturesResponse):
    """Versions 0 and 1 answer for each feature as well as for all together."""

    results: tuple[UpdatableFeatureResult, ...] = ()
