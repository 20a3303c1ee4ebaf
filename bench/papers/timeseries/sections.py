"""Sections of the page on random walks: what was run, the goals, whole matches, and the paper's figures."""

from __future__ import annotations

from typing import Any

from bench.papers.markdown import bullets, paragraph, picture, table
from bench.papers.timeseries.feature_space import NAMES
from bench.papers.timeseries.tables import NAMED, percent

__all__ = ["figure", "goals", "opening", "race"]

Row = dict[str, Any]


def opening(facts: Row, rows: dict[str, Row]) -> list[str]:
    """What this is, on which machine, with what."""
    machine, races = facts["machine"], [row for row in rows.values() if "versions" in row]
    sizes = rows["figures 5 and 6"]["points"]
    versions = {**machine["versions"], **races[0]["versions"]}
    used = ", ".join(f"{name} {number}" for name, number in versions.items() if name not in ("pyarrow", "pyspark"))
    checked = sum(row["checked"] for row in races)
    compared = sum(row["publications"] for row in races)
    surplus = max(point["listed"][name] / point["share"] - 1 for point in sizes for name in NAMES[1:])
    shorter = [point["listed"]["cascade"] / point["share"] for point in sizes]
    return [
        "# Publish/subscribe for time series, repeated",
        paragraph(
            "K. Manassiev and H.-A. Jacobsen, *Publish/Subscribe Paradigm for Time Series Data: Evaluation of Two "
            "Spatial Search Algorithms* (2004), §5: Table 1 and Figures 5 to 8, with our own structure and FAISS "
            "beside the paper's three, and then the same on real data, which the paper leaves to future work. "
            "Written by `python -m bench.papers.timeseries.page` from `bench/results/timeseries.json`, which "
            "`python -m bench timeseries` makes; every number on this page is computed from it."
        ),
        paragraph(
            f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, {used}. "
            f"Seed {facts['seed']}, {machine['time'][:10]}, load average at the end {machine['load_average']:.1f}. "
            "Times are medians of rounds in which the rivals take turns. All of them use two cores, but for the "
            "R*-tree's own library, which works on one; the machine is shared and noisy, so trust ratios."
        ),
        paragraph(
            f"**Workload** (Table 1): random walks of L = {rows['figures 5 and 6']['length']:,} samples with steps "
            "uniform in (−500, 500), tolerances uniform in (0, c · √(1000 · L)). c is calibrated: it is the quantile "
            "at which the wanted share of pairs are candidates, and the sizes below are what came out. They take c "
            f"from {sizes[0]['c']:.4f} to {sizes[-1]['c']:.4f}; normal forms are at most 2√L apart, so the paper's "
            "larger c, up to 1, would have nearly everything match. The paper publishes N / 10 walks; here "
            f"{sizes[0]['publications']} for the figures and up to {max(row['publications'] for row in races)} for "
            "whole matches, so that a run ends."
        ),
        paragraph(
            f"**Exact**: all rivals gave the same matches for all {compared:,} publications of the whole matches, and "
            f"{checked} of these were also compared with every subscription by brute force in doubles. In feature "
            "space none of the paper's structures dismissed anything that brute force finds there, and none listed "
            f"more than {percent(surplus, 2)} too much. The cascade's first rung knows more than k coefficients, so "
            f"its own candidate lists are shorter, {percent(min(shorter))} to {percent(max(shorter))} of the others'; "
            "sizes here are always those of the paper's."
        ),
    ]


def goals(rows: dict[str, Row]) -> list[str]:
    """The goals, and what came out."""
    one, eight = (rows[f"walks, about {share} candidates"] for share in ("1 %", "8 %"))
    most = max(rows["figure 8"]["points"], key=lambda point: point["subscriptions"])
    pairs = rows["doubling"]["points"]
    worst = max(pairs, key=lambda pair: pair["ratio"])
    behind = min(eight[f"{name}_ratio"] for name in (*NAMES[1:], "faiss"))
    engine = rows["an engine"]
    found = [
        ("times as fast as the R*-tree that its library searches", "≥ 30", _by_library(one), 30),
        ("times as fast as that R*-tree walked by our compiled code", "≥ 30", one["rstar_ratio"], 30),
        ("times as fast as the scan", "≥ 3, aim 10", one["scan_ratio"], 3),
        ("times as fast as FAISS", "≥ 5", one["faiss_ratio"], 5),
        (f"at {eight['candidates']:.1f} %: times as fast as the best of all", "> 1", behind, 1),
        ("subscriptions per second, normal forms included", "≥ 5,000", most["rate"], 5000),
        (f"the same for an engine that reads CQL2-JSON, {engine['subscriptions']:,}", "≥ 5,000", engine["rate"], 5000),
        ("memory ÷ the float32 series", "≤ 1.2", -one["memory_ratio"], -1.2),
        ("the same for that engine's index", "≤ 1.2", -engine["memory_ratio"], -1.2),
        (f"match time at 2N ÷ at N, worst at N = {worst['subscriptions']:,}", "≤ 2", -worst["ratio"], -2),
    ]
    return [
        "## The goals",
        paragraph(
            f"The cascade with N = {one['subscriptions']:,}, L = {one['length']:,}, k = {one['k']}, "
            f"{one['candidates']:.2f} % candidates, {one['matches']:,.1f} matches per publication. Times are those of "
            "whole, exact matches; what its library takes to search the R*-tree is made whole by the time that our "
            "walk of the same tree takes to verify its candidates."
        ),
        table(
            ["the cascade", "goal", "measured", "held"],
            ((what, wanted, abs(value), "yes" if value >= least else "no") for what, wanted, value, least in found),
        ),
        paragraph(
            "Doubling the subscriptions multiplies the time of a whole match by: "
            + ", ".join(f"{pair['ratio']:.2f} (from {pair['subscriptions']:,})" for pair in pairs)
            + "."
        ),
        paragraph(
            f"The engine holds {engine['own_memory_ratio']:.2f} times the float32 series in memory of its own, all "
            "included (the exact series and the expressions lie in files), and needs "
            f"{engine['engine_us']:,.0f} µs per publication from Arrow table to grouped notifications."
            + (f" One object at a time it needs {alone:,.0f} µs." if (alone := engine.get("engine_alone_us")) else "")
        ),
        paragraph(
            "Candidates alone, which are not yet an answer, the scan lists in "
            f"{one['scan_candidates_ratio']:.2f} times the cascade's whole match at {one['candidates']:.1f} % and in "
            f"{eight['scan_candidates_ratio']:.2f} times at {eight['candidates']:.1f} %, our walk of the R*-tree in "
            f"{one['rstar_candidates_ratio']:.2f} and {eight['rstar_candidates_ratio']:.2f} times: what the cascade "
            "saves is above all the reading of whole series, since it also knows what is surely near."
        ),
        paragraph(
            "Below, *candidates* is the time from a publication's normal form to the candidate list and *whole "
            "match* that to the exact list. FAISS's IndexFlatIP has the tolerance as one dimension more; IndexFlatL2 "
            "is searched with the widest tolerance of all and then sifted, after the others rather than in turns "
            "with them. The matrix product compares as FAISS does and leaves all of that to numpy. The R*-tree is "
            "the library's, packed at once: the structure takes it out of the library and walks it in compiled code, "
            "the last line is the library's own search, all publications in one call."
        ),
    ]


def _by_library(row: Row) -> float:
    """A whole match with the library's own search."""
    whole = row["rstar_library_us"] + row["rstar_us"] - row["rstar_candidates_us"]
    return float(whole / row["cascade_us"])


def race(row: Row) -> list[str]:
    """Whole matches at one size of the candidate list."""
    mean = row["c"] * (1000 * row["length"]) ** 0.5 / 2
    right = row["matches"] * 100 / (row["candidates"] * row["subscriptions"])
    names = [*NAMES, "faiss", "faiss_l2", "product"]
    lines = [(NAMED[n], row.get(f"{n}_candidates_us"), row[f"{n}_us"], row[f"{n}_ratio"]) for n in names]
    lines.append((NAMED["rstar_library"], row["rstar_library_us"], None, None))
    return [
        f"## {row['what'].capitalize()}",
        paragraph(
            f"{row['subscriptions']:,} subscriptions of {row['length']:,} samples, k = {row['k']}, c = {row['c']:.4f} "
            f"(a mean tolerance of {mean:.2f}, a correlation of {1 - mean**2 / (2 * row['length']):.3f}), "
            f"{row['publications']} publications: {row['candidates']:.2f} % candidates, {row['matches']:,.1f} matches "
            f"per publication, so {percent(right)} of the candidates match. Microseconds per publication:"
        ),
        table(["", "candidates", "whole match", "whole match ÷ cascade"], lines),
        paragraph(
            f"FAISS was asked in batches of at most {row['faiss_setting']['batch']}, "
            f"{'with' if row['faiss_setting']['products_from'] < 1000 else 'without'} matrix products, the fastest of "
            f"the settings tried. One publication at a time the cascade needs {row['cascade_alone_us']:,.0f} µs. It "
            f"reads {row['bytes'] / 1e6:,.0f} MB, {row['memory_ratio']:.2f} times the series in single precision."
        ),
    ]


def figure(name: str, title: str, sentences: list[str]) -> list[str]:
    """A drawn figure and what it says."""
    number = f"Figure {name.removeprefix('figure')}: " if name.startswith("figure") else ""
    heading = f"{number}{title[0].lower() + title[1:]}" if number else title
    return [f"## {heading}", picture(name, f"{number}{title}"), bullets(sentences)]
