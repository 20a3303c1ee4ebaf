"""The client of a broker, over HTTP and WebSocket: ``connect`` and what it gives, with asyncio and without."""
