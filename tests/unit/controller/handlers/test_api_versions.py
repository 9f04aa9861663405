"""ApiVersions at the controller listener: Kafka's own answer, what is not served aside."""

from __future__ import annotations

import json

from crabka.protocol.apis import ApiKey, read_response
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimControllers, run_controllers
from tests.support.recorded.files import GOLDEN

# Delegation tokens are not served. DescribeUserScramCredentials, which brokers answer, has no effect there in Kafka.
NOT_SERVED = {38, 39, 40, 41, 50}


@run_with(run_controllers)
async def test_the_answer_is_kafkas(cluster: SimControllers, /) -> None:
    golden = json.loads((GOLDEN / "api_versions.json").read_text())["controller"]
    recorded = read_response(ApiKey.API_VERSIONS, 4, bytes.fromhex(golden["response_hex_v4"]), 4)

    names = {"client_software_name": "test", "client_software_version": "1"}
    answer = await (await cluster.active()).ask(ApiKey.API_VERSIONS, 4, **names)
    assert answer.error_code is ErrorCode.none
    assert list(answer.api_keys) == [each for each in recorded.api_keys if each.api_key not in NOT_SERVED]
    assert set(answer.supported_features) == set(recorded.supported_features)
    assert {each.name for each in answer.finalized_features} <= {each.name for each in recorded.finalized_features}
