"""The fuzz harness: whatever comes in is refused with a ``TidegateError`` or answered rightly, and in time.

``python -m tests.fuzz ENTRY --count N --seed S`` draws N inputs for an entry point and checks them in other processes,
so that a death by signal and a hang are seen and have a name. The same seed draws the same inputs. What fails is kept
under ``findings/ENTRY/``; once it is mended it stays there, and the tests replay it.
"""
