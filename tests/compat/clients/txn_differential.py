"""The same transaction scenarios to a real Kafka and to Barnabas; see `group_differential`.

python -m tests.compat.clients.txn_differential ask WHOM ANSWERS.json [--markdown FILE]
python -m tests.compat.clients.txn_differential diff KAFKA.json BARNABAS.json
"""

import sys
from typing import Final

from tests.compat.clients import (
    txn_probe_add,
    txn_probe_end,
    txn_probe_init,
    txn_probe_markers,
    txn_probe_offsets,
    txn_probe_read,
    txn_probe_timeouts,
    txn_probe_write,
)
from tests.compat.clients.group_differential import Stage, main
from tests.compat.clients.txn_probe import TxnProbe

QUICK: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
IMPATIENT: Final = QUICK | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
FORGETFUL: Final = QUICK | {
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
BEGINNING: Final = (txn_probe_init.first_contact,)

STAGES: Final[tuple[Stage, ...]] = (
    Stage(
        QUICK,
        (
            *txn_probe_init.SCENARIOS,
            *txn_probe_add.SCENARIOS,
            *txn_probe_write.SCENARIOS,
            *txn_probe_end.SCENARIOS,
            *txn_probe_offsets.SCENARIOS,
            *txn_probe_markers.SCENARIOS,
            *txn_probe_read.SCENARIOS,
        ),
        {},
    ),
    Stage(IMPATIENT, txn_probe_timeouts.SCENARIOS, {}),
    Stage(FORGETFUL, txn_probe_timeouts.FORGETTING, {}),
)

if __name__ == "__main__":
    sys.exit(main(STAGES, TxnProbe))
