"""Loops over arrays, compiled by numba: arrays in, arrays out.

``index``, ``patterns``, ``shapes``, ``covering`` and ``overlay`` make the arrays and call the loops. A kernel knows a
subscription, if at all, as a *slot*: a row of the arrays that its caller keeps.
"""
