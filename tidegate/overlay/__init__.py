"""A network of brokers: what to forward where, so that little travels and nothing is lost.

Jurca et al., *Continuous Query Evaluation over Distributed Sensor Networks*. Nodes are state machines without I/O; the
network here runs them in one process.
"""

from tidegate.overlay.messages import (
    LOCAL,
    Advertise,
    Deliver,
    Interest,
    Publish,
    Reading,
    Refuse,
    Subscribe,
    Sync,
    Unsubscribe,
    Withdraw,
)
from tidegate.overlay.network import Network, Traffic
from tidegate.overlay.node import Node
from tidegate.overlay.operators import Operator, Part, operator_of
from tidegate.overlay.strategies import STRATEGIES
from tidegate.overlay.wire import decode, encode

__all__ = [
    "LOCAL",
    "STRATEGIES",
    "Advertise",
    "Deliver",
    "Interest",
    "Network",
    "Node",
    "Operator",
    "Part",
    "Publish",
    "Reading",
    "Refuse",
    "Subscribe",
    "Sync",
    "Traffic",
    "Unsubscribe",
    "Withdraw",
    "decode",
    "encode",
    "operator_of",
]
