"""The subscriptions of the demo: a hundred that watch the valley and use every family of predicates and patterns."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.demo.valley import STATIONS
from tidegate.model import Subscription

__all__ = ["subscriptions"]

_WATCHED: dict[str, dict[str, str]] = {
    "avalanche-service": {
        "wind-slab": "kind IN ('ridge', 'slope') AND gust > 22 AND temperature < -4 AND snow_depth > 0.6",
        "fresh-load": "a_contains(tags, ('snowing')) AND snow_depth >= 1.5 AND altitude BETWEEN 1800 AND 2800",
        "warm-snow": "snow_depth > 0.5 AND temperature > 3",
        "raven-face": "station = 'Raven Face' AND (gust > 20 OR temperature > 0)",
        "released": "kind = 'avalanche' AND size >= 3",
        "near-marmot-hut": "kind = 'avalanche' AND S_DWITHIN(location, POINT(7.09 45.86), 6000)",
        "no-snow-reading": "kind = 'slope' AND snow_depth IS NULL",
        "slides-of-the-first-day": "kind = 'avalanche' AND T_BEFORE(event, DATE('2026-11-16'))",
        "strongest-gusts": "kind IN ('ridge', 'slope') AND topk(3, 'PT6H', -gust)",
        "storm-and-snow": "together('PT10M', 5000, kind = 'ridge' AND gust > 26, "
        "kind = 'slope' AND a_contains(tags, ('snowing')))",
    },
    "road-maintenance": {
        "black-ice": "kind = 'road' AND temperature BETWEEN -3 AND 0.5 AND humidity > 90",
        "salt-the-pass": "station LIKE 'Pass %' AND a_overlaps(tags, ('ice', 'snowing'))",
        "tunnel-air": "station = 'Gorge Tunnel' AND no2 > 55",
        "rockfall-on-road": "kind = 'rockfall' AND S_INTERSECTS(location, "
        "POLYGON((7.05 45.76, 7.36 45.88, 7.36 45.96, 7.05 45.84, 7.05 45.76)))",
        "closed-this-morning": "kind = 'roadworks' AND T_INTERSECTS(event, "
        "INTERVAL('2026-11-15T06:00:00Z', '2026-11-15T12:00:00Z'))",
        "side-wind": "kind = 'road' AND gust - wind > 8",
        "viaduct": "station = 'Mill Viaduct' AND NOT gust < 18",
    },
    "mountain-rescue": {
        "two-alarms": "a_contains(tags, ('alarm', 'alarm'))",
        "helicopter-near-glacier": "kind = 'helicopter' AND S_WITHIN(location, BBOX(7.18, 45.78, 7.32, 45.95))",
        "big-and-short": "size >= 4 AND kind <> 'lift stop'",
        "wind-chill": "altitude > 2400 AND "
        "13.12 + 0.6215 * temperature + (0.3965 * temperature - 11.37) * (3.6 * wind) ^ 0.16 < -25",
        "storm-hours": "gust > 28 AND T_DURING(time, INTERVAL('2026-11-15T12:00:00Z', '2026-11-15T20:00:00Z'))",
        "nearest-slides": "kind = 'avalanche' AND topk(2, 'PT12H', distance(location, POINT(7.09 45.86)))",
        "while-they-slept": "kind IN ('avalanche', 'rockfall') AND "
        "T_DURING(event, INTERVAL('2026-11-15T00:00:00Z', '2026-11-15T06:00:00Z'))",
    },
    "station-engineers": {
        "faults": "message LIKE '%fault%'",
        "frozen-rotor": "message LIKE 'anemometer%frozen'",
        "low-battery": "battery < 11.4 OR message LIKE 'battery low%'",
        "reboots": "CASEI(message) LIKE CASEI('reboot%')",
        "stoerung": "ACCENTI(CASEI(message)) LIKE 'storung%'",
        "log-lines-from-ridges": "message IS NOT NULL AND source LIKE 'ridge-%'",
        "timeouts": "message LIKE '%timeout' AND source NOT IN ('hut-1', 'hut-2')",
        "silent": "kind IN ('slope', 'ridge', 'hut') AND absent('PT15M', snow_depth IS NOT NULL, source)",
        "humidity-stuck": "humidity = 100 AND NOT a_overlaps(tags, ('snowing', 'raining'))",
    },
    "security-desk": {
        "failed-logins": "message LIKE 'Failed password for %'",
        "failed-logins-from-7": "message LIKE '%from 10.0.7._'",
        "admin-at-night": "message LIKE '%admin%' AND time < TIMESTAMP('2026-11-15T05:00:00Z')",
    },
    "water-authority": {
        "high-water": "a_overlaps(levels, (3), '>')",
        "all-gauges-low": "a_containedBy(levels, (0.9, 1.4, 2.3), '<')",
        "torrent": "station = 'Ursin Torrent' AND a_contains(levels, (2, 3), '>=')",
        "levels-of-the-first-day": "kind = 'gauge' AND time <= DATE('2026-11-15') AND a_overlaps(levels, (5), '>')",
        "not-calm": "kind = 'gauge' AND NOT a_containedBy(levels, (2, 3, 5), '<')",
    },
    "ski-patrol": {
        "lift-stops": "kind = 'lift stop'",
        "good-morning": "kind = 'slope' AND snow_depth > 0.8 AND temperature < -2 AND wind < 9 AND humidity < 66",
        "gusts-above-lifts": "S_DWITHIN(location, POINT(7.2 45.87), 6000) AND gust > 24",
    },
    "fog-watch": {
        "dew": "temperature - dew_point < 0.6 AND altitude < 1300",
        "nearly-dew": "temperature <= dew_point",
        "upper-valley": "humidity > 97 AND S_WITHIN(location, BBOX(7.2, 45.85, 7.4, 46.0)) AND NOT kind = 'ridge'",
    },
}
_VILLAGE = {
    "frost": ("village-clerks", "station = '{0}' AND temperature < 0"),
    "air": ("school@{0}", "station = '{0}' AND no2 > 48"),
    "storm": ("fire-brigade@{0}", "S_DWITHIN(location, POINT({1} {2}), 3000) AND gust > 19"),
}
_HUT = {
    "cold": ("warden@{0}", "station = '{0}' AND temperature < -5"),
    "wild": ("warden@{0}", "station = '{0}' AND (gust > 26 OR a_contains(tags, ('alarm')))"),
}
_SLOPE = {
    "load": ("observer@{0}", "station = '{0}' AND snow_depth > 0.6 AND a_contains(tags, ('snowing'))"),
    "slides": ("observer@{0}", "kind = 'avalanche' AND S_DWITHIN(location, POINT({1} {2}), 2500)"),
}
_ROAD = {"ice": ("plough@{0}", "station = '{0}' AND a_contains(tags, ('ice'))")}
_BY_KIND = {"village": _VILLAGE, "hut": _HUT, "slope": _SLOPE, "road": _ROAD}


def subscriptions() -> list[Subscription]:
    """The hundred subscriptions, always the same."""
    return list(_all())


def _all() -> Iterator[Subscription]:
    for subscriber, watched in _WATCHED.items():
        for name, where in watched.items():
            yield Subscription(name, subscriber, where)
    for station in STATIONS:
        for name, (subscriber, where) in _BY_KIND.get(station.kind, {}).items():
            text = where.format(station.name, station.lon, station.lat)
            principal = subscriber.format(station.name.lower().replace(" ", "-"))
            yield Subscription(f"{station.source}/{name}", principal, text)
