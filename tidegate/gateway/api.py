"""All requests of the API, from the modules that answer them."""

from __future__ import annotations

from tidegate.gateway import (
    announcing,
    browsing,
    checking,
    event_stream,
    explaining,
    health,
    metrics,
    notifications,
    principals,
    publishing,
    quarantine,
    rehearsing,
    sessions,
    status,
    subscription_routes,
    tokens,
    webhooks,
)
from tidegate.gateway.documents import with_documents
from tidegate.gateway.routes import Routes

__all__ = ["routes"]


def routes() -> Routes:
    """The routes of the API."""
    every = [
        *health.ROUTES,
        *publishing.ROUTES,
        *browsing.ROUTES,
        *subscription_routes.ROUTES,
        *notifications.ROUTES,
        *event_stream.ROUTES,
        *announcing.ROUTES,
        *checking.ROUTES,
        *explaining.ROUTES,
        *rehearsing.ROUTES,
        *principals.ROUTES,
        *tokens.ROUTES,
        *sessions.ROUTES,
        *webhooks.ROUTES,
        *quarantine.ROUTES,
        *status.ROUTES,
        *metrics.ROUTES,
    ]
    return Routes(with_documents(every))
