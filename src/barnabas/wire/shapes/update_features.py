"""UpdateFeatures, with an answer for each feature."""

from dataclasses import dataclass

from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v2 import response

__all__ = ["UpdatableFeatureResult", "UpdateFeaturesResponse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(response.UpdateFeaturesResponse):
    """Versions 0 and 1 answer for each feature as well as for all together."""

    results: tuple[UpdatableFeatureResult, ...] = ()
