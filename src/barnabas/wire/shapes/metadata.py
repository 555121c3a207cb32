"""Metadata, with what versions 8 to 10 said about the whole cluster."""

from dataclasses import dataclass

from kio.schema.metadata.v13 import request, response

OPERATIONS_NOT_ASKED_FOR = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest(request.MetadataRequest):
    """Versions 8 to 10 could ask for the operations allowed on the cluster."""

    include_cluster_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse(response.MetadataResponse):
    """Versions 8 to 10 could tell the operations allowed on the cluster."""

    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED_FOR
