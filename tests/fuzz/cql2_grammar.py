"""CQL2-text drawn from the grammar: expressions of every family over the attributes that ``expressions.py`` publishes.

Most of what is drawn here means something, so that most inputs get as far as an index; mutations do the rest.
"""

from __future__ import annotations

import re
from random import Random

NUMBERS = ["n", "o3", "no2", "x", '"a b"']
TEXTS = ["kind", "word", "source", "id"]
TIMES = ["time", "seen", "start", "end"]
BAGS = ["tags", "levels", "mixed"]
PLACES = ["location", "spot"]
_WORDS = ["rain", "a", "ab", "Abc", "it''s", "é", "", "vin:Red", "vin:Chianti", "a%", "%b_", "10"]
_TERMS = [
    "vin:Wine",
    "vin:RedWine",
    "vin:Red",
    "vin:Italy",
    "vin:locatedIn",
    "vin:hasColor",
    "vin:nothing",
    "vin:Chianti",
]
_INSTANTS = [
    "TIMESTAMP('2026-11-15T08:00:00Z')",
    "TIMESTAMP('2026-11-15T08:00:00.000001+01:00')",
    "DATE('2026-11-15')",
    "TIMESTAMP('0001-01-01T00:00:00Z')",
]
_DURATIONS = ["PT1S", "PT10M", "P1D", "PT0.5S", "P1W", "PT1S", "PT2S", "PT0S"]
_SHAPES = ["rising-wedge", "spike", "step-up", "head-and-shoulders", "step-up", "spike", "nothing"]
_INSTANT_RELATIONS = ["AFTER", "BEFORE", "DISJOINT", "DURING", "EQUALS", "INTERSECTS"]
_RELATIONS = [
    "AFTER",
    "BEFORE",
    "CONTAINS",
    "DISJOINT",
    "DURING",
    "EQUALS",
    "FINISHES",
    "INTERSECTS",
    "MEETS",
    "OVERLAPS",
]
_SPATIAL = ["S_INTERSECTS", "S_DISJOINT", "S_WITHIN", "S_CONTAINS", "S_EQUALS", "S_TOUCHES"]
_COMPARE = ["=", "<>", "<", "<=", ">", ">="]

#: A text as tokens: strings, names, numbers, signs.
_TOKEN = re.compile(
    r"'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?|[A-Za-z_][\w.:]*|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|<>|<=|>=|\s+|.", re.S
)

#: Tokens to put in.
TOKENS = [
    *(
        "AND",
        "OR",
        "NOT",
        "LIKE",
        "BETWEEN",
        "IN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "DIV",
        "a",
        "n",
        "kind",
        "tags",
        "time",
    ),
    *(
        "(",
        ")",
        ",",
        "[",
        "]",
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "=",
        "<>",
        "<",
        ">=",
        "1",
        "0",
        "-1",
        "2.5",
        "1e400",
        "1e308",
    ),
    *(
        "'x'",
        "''",
        "'",
        '"',
        '"q"',
        "'..'",
        "'2026-11-15'",
        "'2026-11-15T08:00:00Z'",
        "'PT1S'",
        "TIMESTAMP(",
        "DATE(",
        "BBOX(",
    ),
    *(
        "INTERVAL(",
        "POINT(1 2)",
        "POLYGON((0 0, 1 0, 1 1, 0 0))",
        "a_contains(",
        "past(",
        "absent(",
        "topk(",
        "together(",
    ),
    *(
        "shape(",
        "casei(",
        "accenti(",
        "isA(",
        "related(",
        "event",
        "é",
        "\n",
        "$",
        "\0",
        "😀",
        "9" * 30,
        "(" * 70,
        "NOT " * 70,
    ),
]


def tokens(text: str) -> list[str]:
    """The text cut into tokens and blanks, which together are the text."""
    return _TOKEN.findall(text)


class Grammar:
    """Draws expressions with a generator of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.one = random.choice

    def expression(self) -> str:
        chance = self.random.random()
        if chance < 0.2:
            return self.pattern()
        return self.condition(self.random.choice((0, 0, 1, 1, 2, 3)))

    def condition(self, depth: int) -> str:
        if depth > 0:
            parts = [self.condition(depth - 1) for _ in range(self.random.choice((1, 2, 2, 3)))]
            joined = self.one((" AND ", " OR ")).join(
                f"({part})" if self.one((True, False)) else part for part in parts
            )
            return f"NOT ({joined})" if self.random.random() < 0.2 else joined
        return self.one(
            (
                self.comparison,
                self.comparison,
                self.membership,
                self.text,
                self.moment,
                self.place,
                self.bag,
                self.bag,
                self.shape,
                self.ontology,
                self.truth,
            )
        )()

    # --- values -----------------------------------------------------------------------------------------------------

    def number(self) -> str:
        return self.one(
            ("0", "1", "2", "2.5", "-1", "40", "1e3", "-0.0", "0.1", "9007199254740993", "5e-324", "1.7e308")
        )

    def sum(self, depth: int = 1) -> str:
        if depth == 0 or self.random.random() < 0.5:
            return self.one((self.one(NUMBERS), self.number()))
        op = self.one(("+", "-", "*", "/", "%", "DIV", "^"))
        return self.one(("{} {} {}", "({} {} {})", "-({} {} {})")).format(self.sum(depth - 1), op, self.sum(depth - 1))

    def word(self) -> str:
        return f"'{self.one(_WORDS)}'"

    def text_value(self) -> str:
        name = self.one(TEXTS)
        return self.one((name, name, f"CASEI({name})", f"ACCENTI({name})", f"CASEI(ACCENTI({name}))"))

    def list_of(self, item, most: int = 4) -> str:
        return f"({', '.join(item() for _ in range(self.random.randint(1, most)))})"

    # --- conditions -------------------------------------------------------------------------------------------------

    def comparison(self) -> str:
        op = self.one(_COMPARE)
        if self.random.random() < 0.25:
            return f"{self.text_value()} {op} {self.word()}"
        if self.random.random() < 0.2:
            return f"{self.sum()} {self.one(('', 'NOT '))}BETWEEN {self.sum(0)} AND {self.sum(0)}"
        return f"{self.sum(2)} {op} {self.sum()}"

    def membership(self) -> str:
        negated = self.one(("", "NOT "))
        name, item = self.one(((self.one(NUMBERS), self.number), (self.text_value(), self.word)))
        return self.one((f"{name} {negated}IN {self.list_of(item)}", f"{self.one(NUMBERS + BAGS)} IS {negated}NULL"))

    def text(self) -> str:
        pattern = "".join(
            self.one(("%", "_", "a", "b", "ai", "é", "\\%", "R")) for _ in range(self.random.randint(0, 6))
        )
        return f"{self.text_value()} {self.one(('', 'NOT '))}LIKE '{pattern}'"

    def truth(self) -> str:
        return self.one(("flag", "NOT flag", "flag = TRUE", "TRUE", "FALSE", "flag <> FALSE"))

    def moment(self) -> str:
        if self.one((True, False)):
            return f"{self.one(TIMES)} {self.one(_COMPARE)} {self.one(_INSTANTS)}"
        first = self.one(("'..'", "'2026-11-15'", "'2026-11-15T08:00:00Z'", "'2026-01-01'"))
        last = self.one(("'..'", "'2026-11-16'", "'2026-11-15T08:00:00.5Z'", "'2027-01-01'"))
        right = self.one((self.one(_INSTANTS), f"INTERVAL({first}, {last})"))
        return f"{self.relation(*TIMES)}, {right})"

    def relation(self, *names: str) -> str:
        """The beginning of a relation in time, with one of the names or an event on its left."""
        if self.one((True, False)):
            return f"T_{self.one(_RELATIONS)}(event"
        return f"T_{self.one(_INSTANT_RELATIONS)}({self.one(names)}"

    def place(self) -> str:
        name = self.one(PLACES)
        if self.random.random() < 0.2:
            return f"S_DWITHIN({name}, POINT(7 46), {self.one((0, 1000, 1e6))})"
        shape = self.one(
            (
                "BBOX(6, 45, 8, 47)",
                "BBOX(170, -10, -170, 10)",
                "POINT(7 46)",
                "POLYGON((6 45, 8 45, 8 47, 6 47, 6 45))",
                "POLYGON((6 45, 8 45, 8 47, 6 47, 6 45), (6.5 45.5, 7.5 45.5, 7.5 46.5, 6.5 46.5, 6.5 45.5))",
                "MULTIPOINT(7 46, 8 47)",
                "LINESTRING(6 45, 8 47)",
                "MULTIPOLYGON(((6 45, 8 45, 8 47, 6 45)), ((0 0, 1 0, 1 1, 0 0)))",
                "GEOMETRYCOLLECTION(POINT(7 46), LINESTRING(6 45, 8 47))",
            )
        )
        return f"{self.one(_SPATIAL)}({name}, {shape})"

    def bag(self) -> str:
        op, name = self.one(("a_equals", "a_contains", "a_containedBy", "a_overlaps")), self.one(BAGS)
        sub = self.one((None, "=", "<>", "<", "<=", ">", ">=", "LIKE", "IN", "isA", "equivalent"))
        item = self.one((self.number, self.word))
        if sub in ("LIKE", "isA", "equivalent"):
            item = self.word if sub == "LIKE" else self.klass
        elif sub == "IN":
            inner = item

            def item() -> str:
                return self.list_of(inner, 3)

        items = self.list_of(item, 5)
        return f"{op}({name}, {items})" if sub is None else f"{op}({name}, {items}, '{sub}')"

    def term(self, *likely: str) -> str:
        return f"'{self.one(likely if likely and self.random.random() < 0.9 else _TERMS)}'"

    def klass(self) -> str:
        return self.term("vin:Wine", "vin:RedWine", "vin:Chianti")

    def ontology(self) -> str:
        if self.random.random() < 0.25:
            return f"related(wine, {self.term('vin:locatedIn', 'vin:hasColor')}, {self.term('vin:Red', 'vin:Italy')})"
        return f"{self.one(('isA', 'equivalent', 'moreSpecific', 'lessSpecific'))}(wine, {self.klass()})"

    def shape(self) -> str:
        series = self.one((f"'{self.one(_SHAPES)}'", self.list_of(self.number, 9), "(1, 2, 3, 2, 1)"))
        mode = self.one(("", "", ", 'stretched'"))
        return f"shape(wave, {series}{mode}) {self.one(('<', '<=', '>'))} {self.one(('0.5', '1', '3', '0'))}"

    # --- patterns ---------------------------------------------------------------------------------------------------

    def pattern(self) -> str:
        found = self.one((self.topk, self.together, self.absent, self.past, self.past, self.stream))()
        return found if self.random.random() < 0.7 else f"{self.condition(0)} AND {found}"

    def duration(self) -> str:
        return f"'{self.one(_DURATIONS)}'"

    def window(self) -> str:
        return self.one((self.duration(), self.duration(), "10", "1"))

    def topk(self) -> str:
        score = self.one((self.sum(2), "distance((n, o3), (3, 4))", "n"))
        return f"topk({self.one((1, 3, 1000))}, {self.window()}, {score})"

    def together(self) -> str:
        filters = ", ".join(self.condition(0) for _ in range(self.random.randint(2, 3)))
        metres, every = self.one(("", ", 1000")), self.one(("", ", 'all'"))
        return f"together({self.duration()}{metres}, {filters}{every})"

    def absent(self) -> str:
        return f"absent({self.duration()}, {self.condition(0)})"

    def past(self) -> str:
        inner = self.condition(0) if self.random.random() < 0.8 else self.past()
        more = self.one(("", "", f", {self.duration()}", f", {self.duration()}, {self.duration()}"))
        relation = f"{self.relation('start', 'end', 'time')}, past({inner}{more}))"
        compared = (
            f"{self.one(NUMBERS)} {self.one(_COMPARE)} past({self.one(NUMBERS)}, {inner}, {self.one((1, 5, 200))})"
        )
        found = self.one((relation, compared))
        return self.one(
            (found, found, f"NOT {found}", f"{found} OR {self.condition(0)}", f"{found} AND {self.condition(0)}")
        )

    def stream(self) -> str:
        series, most = self.one(_SHAPES), self.one((0.5, 1, 3))
        return f"shape({self.one(NUMBERS)}, '{series}', 'stream', {self.one((3, 4, 64))}) < {most}"
