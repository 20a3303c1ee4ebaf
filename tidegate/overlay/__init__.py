"""A network of brokers that forward subscriptions and readings to each other, so that little travels and none is lost.

Jurca et al., *Continuous Query Evaluation over Distributed Sensor Networks*. A ``Node`` is one broker, a state machine
without I/O; its ``Strategy`` decides what is forwarded to which neighbour; ``Network`` runs nodes in one process.
"""

from tidegate.overlay.messages import (
    LOCAL,
    Announce,
    Deliver,
    Interest,
    Publish,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.network import Network, Traffic
from tidegate.overlay.node import Node
from tidegate.overlay.operators import Operator, OperatorPart, operator_of
from tidegate.overlay.strategies import STRATEGIES
from tidegate.overlay.wire import decode, encode

__all__ = [
    "LOCAL",
    "STRATEGIES",
    "Announce",
    "Deliver",
    "Interest",
    "Network",
    "Node",
    "Operator",
    "OperatorPart",
    "Publish",
    "Reading",
    "Refuse",
    "Revoke",
    "Subscribe",
    "Sync",
    "Traffic",
    "Unsubscribe",
    "decode",
    "encode",
    "operator_of",
]
