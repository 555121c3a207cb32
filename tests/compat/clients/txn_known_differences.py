"""Where Barnabas answers transaction scenarios otherwise than Apache Kafka, and why.

Each pattern is matched against a line of the differential: scene, step, field, both answers.
"""

from typing import Final

KNOWN: Final[tuple[tuple[str, str], ...]] = (
    # Ours says more, or says it sooner.
    (r"\.error_message: Kafka None, Barnabas '<words>'", "an error says what is wrong"),
    (
        r"^Produce into special topics within a transaction: (into __|described)",
        "no client writes into the coordinators' topics, so nothing is added or asked for it",
    ),
    # Another design.
    (
        r"^TxnOffsetCommit at every version: .*the producer.*\.last_sequence",
        "a coordinator's batches have no sequence numbers: it writes each of them once",
    ),
    # Kafka never answers where a reasoned answer is possible.
    (r"^AddPartitionsToTxn of no transaction at all", "Kafka never answers this one"),
)
