"""Why a request about a transactional id is turned away. Error codes are Kafka's own."""

from barnabas.coordinator.txn.transaction import Transaction
from barnabas.model.errors import ErrorCode, KafkaError


def concurrent(transaction: Transaction) -> KafkaError:
    """The markers of the last transaction are still being written: come again."""
    return _refusal(ErrorCode.concurrent_transactions, transaction, "is ending its transaction")


def mapping(transaction: Transaction) -> KafkaError:
    """Another producer id."""
    owner = transaction.producer_id
    return _refusal(
        ErrorCode.invalid_producer_id_mapping, transaction, f"belongs to producer {owner}"
    )


def unknown(transactional_id: str) -> KafkaError:
    """No producer has this transactional id."""
    return KafkaError(
        ErrorCode.invalid_producer_id_mapping,
        f"Transactional id {transactional_id} belongs to no producer.",
    )


def fenced(transaction: Transaction, epoch: int) -> KafkaError:
    """Another epoch: somebody has taken over (or nobody has ever been given that one)."""
    return _refusal(
        ErrorCode.producer_fenced, transaction, f"has epoch {transaction.epoch}, not {epoch}"
    )


def fenced_producer(transaction: Transaction) -> KafkaError:
    """Another producer id, of one that takes itself for the owner."""
    owner = transaction.producer_id
    return _refusal(ErrorCode.producer_fenced, transaction, f"belongs to producer {owner}")


def invalid_end(transaction: Transaction, *, committed: bool) -> KafkaError:
    """Nothing is there that could end like this."""
    what = "commit" if committed else "abort"
    return _refusal(
        ErrorCode.invalid_txn_state,
        transaction,
        f"is {transaction.state.title} and has nothing to {what}",
    )


def _refusal(code: ErrorCode, transaction: Transaction, about: str) -> KafkaError:
    return KafkaError(code, f"Transactional id {transaction.transactional_id} {about}.")
