"""``python -m bench [NAME] [--quick]``: run a bench, or all of them."""

import argparse

import bench

parser = argparse.ArgumentParser(prog="bench", description="Run a bench, or all of them.")
parser.add_argument("name", nargs="?", choices=list(bench.names()))
parser.add_argument("--quick", action="store_true", help="small sizes only, to see that it works")
arguments = parser.parse_args()
for name in [arguments.name] if arguments.name else bench.names():
    bench.run(name, arguments.quick)
