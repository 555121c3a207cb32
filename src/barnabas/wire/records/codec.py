"""The record codec in use: the compiled one where it was built, else its twin in plain Python.

`BARNABAS_PURE=1` asks for the twin.
"""

import os
from typing import TYPE_CHECKING, Final

if os.environ.get("BARNABAS_PURE") == "1":
    from barnabas.wire.records import _codec_py as _chosen

    COMPILED = False
else:
    try:
        from barnabas.wire.records import _codec as _chosen  # type: ignore[no-redef]

        COMPILED = True
    except ImportError:
        from barnabas.wire.records import _codec_py as _chosen

        COMPILED = False

decode_records: Final = _chosen.decode_records
encode_records: Final = _chosen.encode_records
keyless_records: Final = _chosen.keyless_records
rebase_records: Final = _chosen.rebase_records
SLOT_BYTES: Final = _chosen.SLOT_BYTES

if TYPE_CHECKING:
    from barnabas.wire.records._codec_py import KeyOffsets as KeyOffsets
else:
    KeyOffsets = _chosen.KeyOffsets
