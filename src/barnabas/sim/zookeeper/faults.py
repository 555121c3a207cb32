"""What may go wrong with a simulated ensemble, as numbers that can be changed at any time."""

from dataclasses import dataclass


@dataclass(slots=True)
class Faults:
    """Nothing goes wrong unless it is said here; only a little lag is normal."""

    break_before: float = 0.0
    """How likely a connection breaks as a request arrives: nothing of it is done."""
    break_after: float = 0.0
    """How likely it breaks after a commit took effect and before that is told."""
    watch_delay_s: float = 0.0
    """By how much the call of a watch may come later than the news."""
    lag_s: float = 0.02
    """By how much the copy of a member may be behind: what is read without `sync`."""
    expiry_slack_s: float = 0.1
    """By how much a session may outlive its timeout, as ZooKeeper looks only now and then."""
