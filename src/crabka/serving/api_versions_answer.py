"""The answer to ApiVersions of brokers and controllers: served APIs and the cluster's features (KIP-511, KIP-584)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from crabka.metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.metadata.image import MetadataImage
    from crabka.serving.api_table import ServedApi
    from crabka.serving.request import Request

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE_NAME = 3


def answer_api_versions(
    request: Request, served: Mapping[int, ServedApi], image: MetadataImage, *, kraft_version: int
) -> Any:
    """Return the response of a listener that serves these APIs."""
    types = response_types(request.api_key, request.version)
    if request.version >= _FIRST_VERSION_WITH_SOFTWARE_NAME and not _has_legal_software_name(request.body):
        return types.message(error_code=ErrorCode.invalid_request, api_keys=(), throttle_time=0)
    if request.version >= _FIRST_VERSION_WITH_SOFTWARE_NAME:
        request.connection.client_software_name = request.body.client_software_name
        request.connection.client_software_version = request.body.client_software_version
    # kraft.version is no record of the metadata: the quorum itself keeps it.
    levels = {**image.features.levels, KRAFT_VERSION: kraft_version}
    return types.message(
        error_code=ErrorCode.none,
        throttle_time=0,
        api_keys=[
            types.new("ApiVersion", api_key=key, min_version=api.advertised_min_version, max_version=api.max_version)
            for key, api in sorted(served.items())
        ],
        supported_features=[
            types.new("SupportedFeatureKey", name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            # Below v4 clients take a minimum of 0 for an error (KIP-584).
            if request.version > _FIRST_VERSION_WITH_SOFTWARE_NAME or low > 0
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            types.new("FinalizedFeatureKey", name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
            if level > 0
        ],
        zk_migration_ready=False,
    )


def _has_legal_software_name(body: Any) -> bool:
    return all(
        _SOFTWARE_NAME.fullmatch(text) is not None for text in (body.client_software_name, body.client_software_version)
    )
