"""What a subscriber may read, joined to what it asks, so that it learns of no publication that it may not see.

``compile_subscription`` joins the two for subscriptions of a registry, whose principals may have a ``read``.
"""

from __future__ import annotations

from tidegate.kernels.past_atoms import COMPARISONS
from tidegate.language.tree import Call, Node

__all__ = ["readable"]


def readable(node: Node, read: Node) -> Node:
    """The expression, asked of those publications alone for which ``read`` holds.

    A condition beside a pattern decides what the pattern sees, all its filters included. Only what ``past`` remembers
    is not bound by it, so that ``read`` becomes part of each inner filter, too.
    """
    return Call("and", (_remembering(node, read), read))


def _remembering(node: Node, read: Node) -> Node:
    if not isinstance(node, Call):
        return node
    args = tuple([_remembering(arg, read) for arg in node.args])
    place = 1 if node.op in COMPARISONS else 0  # of a comparison the attribute comes first
    for i, arg in enumerate(args):
        if isinstance(arg, Call) and arg.op == "past":
            inner = *arg.args[:place], Call("and", (arg.args[place], read)), *arg.args[place + 1 :]
            args = *args[:i], Call("past", inner, arg.at), *args[i + 1 :]
    is_same = all(mine is its for mine, its in zip(args, node.args, strict=True))
    return node if is_same else Call(node.op, args, node.at)
