"""A network of brokers: what to forward where, so that little travels and nothing is lost.

Jurca et al., *Continuous Query Evaluation over Distributed Sensor Networks*. Nodes are state machines without I/O; the
network here runs them in one process.
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
