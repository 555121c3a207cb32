"""Why no session came about: what stands at the addresses, in one sentence."""

import asyncio
from typing import Final

from barnabas.world.zookeeper.options import ZooKeeperOptions

_PROBE_S: Final = 1.0
_TRIES: Final = 4
_PAUSE_S: Final = 0.25


async def why_nobody_answers(options: ZooKeeperOptions) -> str:
    """A sentence for the person who must mend it."""
    found = await asyncio.gather(*(_look(host, port) for host, port in options.hosts()))
    start = f"No ZooKeeper session at {options.connect} within {options.connect_timeout_s:g} s: "
    if all(each is None for each in found):
        return start + (
            "nobody listens there. Start it (barnabas zookeeper), or correct zookeeper.connect."
        )
    answers = [each for each in found if each]
    if any(b"not currently serving" in each for each in answers):
        return start + "too few servers of the ensemble run to decide anything; start the others."
    if any(each.startswith(b"Zookeeper version") for each in answers):
        return start + "the servers run, but do not answer in time; see what keeps them busy."
    if options.tls is not None:
        return start + (
            "what listens there did not agree to TLS with our certificates; check the port "
            "(ZooKeeper's secureClientPort) and the zookeeper.ssl settings."
        )
    return start + (
        "what listens there is no ZooKeeper, or wants TLS; check zookeeper.connect and the "
        "zookeeper.ssl settings."
    )


async def is_serving(options: ZooKeeperOptions) -> bool:
    """Whether some server says that it serves, be it us or others."""
    found = await asyncio.gather(*(_look(host, port) for host, port in options.hosts()))
    return any(b"\nMode: " in each for each in found if each)


async def _look(host: str, port: int) -> bytes | None:
    """What a server says of itself; empty for a stranger, None for nobody."""
    for _ in range(_TRIES):
        try:
            async with asyncio.timeout(_PROBE_S):
                answer = await _ask(host, port)
        except (OSError, TimeoutError):
            return None
        if answer:
            return answer
        # A server that has just lost the others hangs up for a moment.
        await asyncio.sleep(_PAUSE_S)
    return b""


async def _ask(host: str, port: int) -> bytes:
    """The answer to a word of ZooKeeper's; empty when it hangs up, a stranger's when it waits."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"srvr")
        async with asyncio.timeout(_PROBE_S / 2):
            return await reader.read(4096)
    except TimeoutError:
        return b"?"
    except OSError:
        return b""
    finally:
        writer.close()
