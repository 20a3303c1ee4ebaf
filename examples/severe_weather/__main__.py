"""Runs the case study: ``python -m examples.severe_weather``."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import tidegate as tg
from examples.severe_weather import county_warnings, generated, paths, subscribers
from examples.severe_weather.counties import PREFIX, State
from examples.severe_weather.directions import IRI, turtle
from examples.severe_weather.page import page, paths_picture, told_picture
from examples.severe_weather.report import Report
from examples.severe_weather.told import reasons_of_counties, reasons_of_people, tell

#: The real files, beside the project and no part of it.
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def run(data: Path, out: Path, *, real: bool = True) -> Report:
    """Reads the three files, writes the ontology, asks the engine, writes the page and the pictures."""
    state = State.read(data / "ontologies")
    warnings = county_warnings.read(data / "severe_weather" / "county_warnings.csv", state)
    out.mkdir(parents=True, exist_ok=True)
    ontology = out / "nebraska.ttl"
    ontology.write_text(turtle(state), "utf-8")
    tg.load_ontology(ontology, prefixes={PREFIX: IRI})

    everybody, people, synthetic = subscribers.in_every_county(state), subscribers.people(), paths.warnings()
    report = Report(
        state,
        real,
        warnings,
        len(everybody),
        tell(everybody, warnings, state, reasons_of_counties(state, warnings)),
        len(tell(subscribers.next_door(state), warnings, state)),
        tell(people, warnings, state, reasons_of_people(state, warnings)),
        synthetic,
        tell(people, synthetic, state, reasons_of_people(state, synthetic)),
    )
    (out / "severe_weather.html").write_text(page(report), "utf-8")
    (out / "told.svg").write_text(told_picture(report), "utf-8")
    (out / "paths.svg").write_text(paths_picture(report), "utf-8")
    return report


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.severe_weather", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="the folder with the real files (default: ../shared/data)"
    )
    parser.add_argument("--generated", action="store_true", help="generated files, also if the real ones are there")
    parser.add_argument(
        "--out", type=Path, default=Path("build/severe_weather"), help="where the page goes (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    real = not given.generated and (given.data / "severe_weather" / "county_warnings.csv").exists()
    if real:
        report = run(given.data, given.out)
    else:
        with TemporaryDirectory() as folder:
            generated.write(Path(folder))
            report = run(Path(folder), given.out, real=False)
    print("\n".join(report.lines()))
    print(f"\nThe page is {given.out / 'severe_weather.html'}")


if __name__ == "__main__":
    main()
