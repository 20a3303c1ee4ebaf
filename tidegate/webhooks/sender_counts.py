"""What the sender of webhooks counts, in the form in which gateways add up and serve the numbers of all processes."""

from __future__ import annotations

from collections import Counter

from tidegate.gateway.histograms import Histogram
from tidegate.gateway.process_numbers import ProcessNumbers, key_of

__all__ = ["SenderCounts"]


class SenderCounts:
    """Counts by cause, and how long things took. Added to in the event loop of the sender."""

    def __init__(self) -> None:
        self.posts, self.retries, self.verifications, self.dead = (Counter[str]() for _ in range(4))
        self.items = Counter[str]()
        self.post_seconds, self.delivery_seconds = Histogram(), Histogram()

    def numbers(self) -> ProcessNumbers:
        """All of them by name and labels."""
        found = ProcessNumbers()
        for name, label, counts in (
            ("tidegate_webhook_posts_total", "outcome", self.posts),
            ("tidegate_webhook_retries_total", "outcome", self.retries),
            ("tidegate_webhook_verifications_total", "outcome", self.verifications),
            ("tidegate_webhook_items_total", "way", self.items),
            ("tidegate_webhook_dead_letters_total", "cause", self.dead),
        ):
            for cause, count in counts.items():
                found.counts[key_of(name, **{label: cause})] = count
        found.histograms[key_of("tidegate_webhook_post_seconds")] = list(self.post_seconds.numbers)
        found.histograms[key_of("tidegate_webhook_delivery_seconds")] = list(self.delivery_seconds.numbers)
        return found
