"""Durable files as each format wrote them, kept for good, and the tests that open them.

``kinds`` says what a file of each kind holds and what it must answer, ``write`` makes the archives of one release.
"""
