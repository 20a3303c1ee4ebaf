"""From the raw results of a sweep to figures, verdicts and a page. Nothing here knows how the results were got."""
