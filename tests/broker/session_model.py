"""Sessions in obvious loops: what several gateways must answer. Shares no code with ``tidegate``.

A queue is a number here, its *generation*; tests compare these with epochs. Each gateway has a *view*: the queues as it
looked at them last, and what the registry had said by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["REFUSED", "WRONG_NUMBER", "Broker", "Connected", "Gateway"]

REFUSED, WRONG_NUMBER = "refused", "wrong number"


@dataclass(eq=False)
class Connected:
    principal: str
    registration: int
    since: int
    #: Where it goes on, and the generation that this is of: ``None`` for whatever the queue is.
    position: tuple[int, int | None] | None
    state: str = "waiting"
    reason: str | None = None
    generation: int | None = None


@dataclass(eq=False)
class Gateway:
    queues: dict[str, int]
    lasts: dict[int, int]
    cut: int
    heard: int
    beat: int | None = None
    pending: dict[int, int] = field(default_factory=dict)
    connections: list[Connected] = field(default_factory=list)
    changed: list[Connected] = field(default_factory=list)
    noted: list[Connected] = field(default_factory=list)


class Broker:
    def __init__(self):
        self.now = 0
        #: What the registry said: a principal, and whether it is registered from then on.
        self.said = []
        self.queues, self.lasts, self.cut = {}, {}, 0
        self.acknowledged = {}
        #: Those that run, and all that ever ran.
        self.gateways, self.all = [], []

    # --- registry and runner ----------------------------------------------------------------------------------------

    def registration(self, principal):
        found = None
        for number, (name, is_registered) in enumerate(self.said):
            if name == principal:
                found = number if is_registered else None
        return found

    def say(self, principal, is_registered):
        self.said.append((principal, is_registered))

    def run(self, counts):
        for principal, is_registered in self.said[self.cut :]:
            self.queues.pop(principal, None)
            if is_registered:
                self.make(principal)
        self.cut = len(self.said)
        for principal, count in counts.items():
            self.lasts[self.queues[principal]] += count

    def make(self, principal):
        self.queues[principal] = len(self.lasts)
        self.lasts[len(self.lasts)] = 0

    # --- gateways ---------------------------------------------------------------------------------------------------

    def start(self):
        made = Gateway(dict(self.queues), dict(self.lasts), self.cut, len(self.said))
        self.gateways.append(made)
        self.all.append(made)
        return made

    def kill(self, gateway):
        self.gateways.remove(gateway)

    def look(self, gateway):
        gateway.queues, gateway.lasts, gateway.cut = dict(self.queues), dict(self.lasts), self.cut

    def follow(self, gateway):
        if gateway.heard == len(self.said):
            return
        gateway.heard = len(self.said)
        for one in list(gateway.connections):
            if self.registration(one.principal) != one.registration:
                self.close(gateway, one, "unregistered")

    def register(self, gateway, principal):
        self.follow(gateway)
        if self.registration(principal) is None:
            self.say(principal, True)
        self.follow(gateway)

    def unregister(self, gateway, principal, killed=None):
        self.follow(gateway)
        if self.registration(principal) is None:
            return REFUSED
        if killed != "before":
            self.say(principal, False)
        self.follow(gateway)
        return None

    # --- connections ------------------------------------------------------------------------------------------------

    def connect(self, gateway, principal, position):
        self.follow(gateway)
        self.look(gateway)
        if self.registration(principal) is None:
            return REFUSED
        made = Connected(principal, self.registration(principal), self.now, position)
        gateway.connections.append(made)
        self.begin(gateway, made)
        return made

    def begin(self, gateway, one):
        generation = self.own_queue(gateway, one.principal, one.registration)
        if one.state == "waiting" and generation is not None:
            one.state, one.generation = "open", generation
            self.change(gateway, one)
            if one.position is None:
                one.position = self.acknowledged_by(gateway, generation), generation

    def own_queue(self, gateway, principal, registration):
        return gateway.queues.get(principal) if registration < gateway.cut else None

    def acknowledged_by(self, gateway, generation):
        return max(self.acknowledged.get(generation, 0), gateway.pending.get(generation, 0))

    def hello(self, gateway, one):
        if one.generation is None or gateway.queues.get(one.principal) != one.generation:
            return None
        return one.generation, self.acknowledged_by(gateway, one.generation), gateway.lasts[one.generation]

    def take(self, gateway, one, limit):
        if one.state in ("lagging", "closed"):
            return REFUSED
        if one.state == "waiting" or gateway.queues.get(one.principal) != one.generation:
            return []
        last, (number, generation) = gateway.lasts[one.generation], one.position
        items = []
        if generation not in (None, one.generation):
            number = 0
            items.append("epoch")
        elif number > last:
            number = 0
            items.append("beyond")
        while number < last and len([item for item in items if type(item) is int]) < limit:
            number += 1
            items.append(number)
        one.position = number, one.generation
        return items

    def is_behind(self, gateway, one):
        if one.state != "open":
            return False
        number, generation = one.position
        return generation not in (None, one.generation) or number != gateway.lasts[one.generation]

    def acknowledge(self, gateway, one, number):
        if one.state == "closed" or one.generation is None:
            return REFUSED
        return self.note(gateway, one.generation, number)

    def acknowledge_of(self, gateway, principal, number):
        self.follow(gateway)
        self.look(gateway)
        registration = self.registration(principal)
        generation = None if registration is None else self.own_queue(gateway, principal, registration)
        if generation is None:
            return REFUSED
        return self.note(gateway, generation, number)

    def note(self, gateway, generation, number):
        if number > gateway.lasts[generation]:
            self.look(gateway)
        if number > gateway.lasts[generation]:
            return WRONG_NUMBER
        gateway.pending[generation] = max(number, gateway.pending.get(generation, 0))
        return None

    def lag(self, gateway, one):
        if one.state in ("waiting", "open"):
            one.state = "lagging"

    def close(self, gateway, one, reason):
        if one.state != "closed":
            one.reason = "lag" if one.state == "lagging" else reason
            one.state = "closed"
            gateway.connections.remove(one)
            self.change(gateway, one)

    def change(self, gateway, one):
        if one not in gateway.changed:
            gateway.changed.append(one)

    # --- as time passes ---------------------------------------------------------------------------------------------

    def flush(self, gateway):
        for generation, number in gateway.pending.items():
            if generation in gateway.queues.values():
                self.acknowledged[generation] = max(number, self.acknowledged.get(generation, 0))
        gateway.pending.clear()
        gateway.beat, gateway.noted = self.now, list(gateway.connections)

    def tick(self, gateway, is_tidy):
        self.look(gateway)
        self.follow(gateway)
        for one in list(gateway.connections):
            self.begin(gateway, one)
            if one.generation is not None and gateway.queues.get(one.principal) != one.generation:
                self.close(gateway, one, "replaced")
        if is_tidy:
            self.flush(gateway)
            living = self.queues.values()
            self.acknowledged = {one: upto for one, upto in self.acknowledged.items() if one in living}
        changed, gateway.changed = gateway.changed, []
        return changed + [one for one in gateway.connections if one not in changed and self.is_behind(gateway, one)]

    def presence(self):
        """By principal when its connections began that others see, and what waits in its queue."""
        found = {}
        for principal in sorted({principal for principal, _ in self.said}):
            if self.registration(principal) is not None:
                began = [
                    one.since
                    for gateway in self.all
                    for one in gateway.noted
                    if one.principal == principal and abs(gateway.beat - self.now) <= 10
                ]
                generation = self.queues.get(principal)
                waits = None
                if generation is not None and self.registration(principal) < self.cut:
                    waits = self.lasts[generation] - self.acknowledged.get(generation, 0)
                found[principal] = sorted(began), waits
        return found
