"""A link to another broker of the cluster, at the address that it tells everybody."""

from barnabas.link.aio import Link, connect


async def reach(broker: int, host: str, port: int, *, client_id: str, timeout_s: float) -> Link:
    """As `connect`. ConnectionError: nobody answers, in a sentence for whoever can mend that."""
    try:
        return await connect(host, port, client_id=client_id, timeout_s=timeout_s)
    except OSError as error:
        why = error.strerror or str(error) or "no answer"
        raise ConnectionError(
            f"broker {broker} can not be reached at {host}:{port} ({why}); if it runs, correct its "
            "advertised.listeners"
        ) from error
