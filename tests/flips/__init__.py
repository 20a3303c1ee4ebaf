"""Flipped bits in durable files: refused, or without effect. Run in processes of their own, whose deaths are counted.

``python -m tests.flips.run 100000`` prints what came of so many flips of each kind.
"""
