"""Items that the MQTT broker has refused for good: who is behind them does not wait for ever, and is told that they are
left out.

Knows which there are by principal, epoch and number, and sends nothing.
"""

from __future__ import annotations

from tidegate.mqtt.packets import Reason

__all__ = ["RefusedItems"]

#: How often an item is refused for a reason until it is left out, and how that is told. All other reasons may pass, or
#: are of the topic, which what is told instead would have as well.
_ATTEMPTS = {Reason.PACKET_TOO_LARGE: (1, "too_large"), Reason.PAYLOAD_FORMAT_INVALID: (3, "refused")}


class RefusedItems:
    """Of each principal the items that were refused and are not acknowledged yet, and how often."""

    def __init__(self) -> None:
        self._times: dict[str, dict[tuple[str, int, int], int]] = {}

    def note(self, principal: str, epoch: str, number: int, reason: int) -> bool:
        """Note that an item was refused; whether it is left out from now on, and was not before."""
        if reason not in _ATTEMPTS:
            return False
        times, what = self._times.setdefault(principal, {}), (epoch, number, reason)
        times[what] = times.get(what, 0) + 1
        return times[what] == _ATTEMPTS[Reason(reason)][0]

    def why_left_out(self, principal: str, epoch: str, number: int) -> str:
        """Why an item is left out, in a word; "" if it is not."""
        if principal in self._times:
            for reason, (most, word) in _ATTEMPTS.items():
                if self._times[principal].get((epoch, number, reason), 0) >= most:
                    return word
        return ""

    def acknowledged(self, principal: str, epoch: str, number: int) -> None:
        """All items up to a number are acknowledged."""
        if principal in self._times:
            kept = {what: many for what, many in self._times[principal].items() if what[:1] == (epoch,)}
            self._times[principal] = {what: many for what, many in kept.items() if what[1] > number}
            if not self._times[principal]:
                del self._times[principal]
