"""The table of APIs agrees with the schemas that are installed, and loads none of them."""

import subprocess
import sys

import pytest
from kio.schema.index import api_key_map, schema_name_map

from barnabas.wire.apis import APIS, Api, advertised_min
from barnabas.wire.messages import version_type

CONTROLLER_ONLY = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def test_the_table_has_every_api_of_a_broker_listener() -> None:
    assert set(APIS) == set(api_key_map) - CONTROLLER_ONLY
    assert list(APIS) == sorted(APIS)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_versions_are_those_of_the_schemas(api: Api) -> None:
    assert api.name == api_key_map[api.key]
    known = set(schema_name_map[api.name])
    spoken = set(range(api.min_version, api.max_version + 1))
    unstable = {6} if api.name == "init_producer_id" else set()
    assert spoken == known - unstable
    for version in spoken:
        request = version_type(api.key, version, "request")
        assert request.__flexible__ is api.is_flexible(version)
        assert request.__api_key__ == api.key


def test_produce_is_advertised_from_zero_for_the_sake_of_librdkafka() -> None:
    assert advertised_min(APIS[0]) == 0
    assert not APIS[0].speaks(0)
    assert APIS[0].speaks(3)
    assert all(advertised_min(api) == api.min_version for api in APIS.values() if api.key)


def test_importing_the_wire_loads_no_schema() -> None:
    script = (
        "import sys; import barnabas.wire.apis, barnabas.wire.headers, barnabas.wire.messages, "
        "barnabas.wire.produce, barnabas.wire.fetch; "
        "schemas = {m for m in sys.modules if m.startswith('kio.schema.')}; "
        "print(schemas, 'hypothesis' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "{'kio.schema.errors'} False"
