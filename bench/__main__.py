"""``python -m bench`` lists all benches; ``python -m bench NAME [--quick]`` runs one, or a command of its own."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module

import bench
from tidegate.errors import PipelineError, TidegateError

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130


def main(words: Sequence[str]) -> int:
    """Do what the words say; the exit code. A mistake of the caller is one line on standard error."""
    if not words:
        for name, summary in bench.names().items():
            print(f"{name:<20} {summary}")
        return 0
    parser = ArgumentParser("python -m bench", description="Run one bench; without a name, list all of them.")
    parser.add_argument("name", metavar="NAME", choices=list(bench.MODULES), help=", ".join(bench.MODULES))
    parser.add_argument("--quick", action="store_true", help="small sizes only, to see that it works")
    try:
        if words[0] in bench.COMMANDS and len(words) > 1 and words[1] != "--quick":
            import_module(bench.COMMANDS[words[0]]).commands(words[1:])
        else:
            arguments = parser.parse_args(words)
            bench.run(arguments.name, arguments.quick)
    except TidegateError as error:
        print(f"bench: {error}", file=sys.stderr)
        return FAILED if isinstance(error, PipelineError) else UNUSABLE
    except OSError as error:
        at = f"; at {error.filename}" if error.filename else ""
        print(f"bench: expected a file that can be used; got {error.strerror or error}{at}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
