"""``python -m tidegate`` is the command ``tidegate``."""

from tidegate.cli.app import main

main()
