"""The gateway: a process that applications, devices and people connect to over HTTP, SSE and WebSocket."""
