"""The command line: one module per command, and the reading of files that they share."""

from tidegate.cli.app import main

__all__ = ["main"]
