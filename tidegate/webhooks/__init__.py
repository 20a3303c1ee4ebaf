"""The sender of webhooks: a process of a broker that posts what waits in queues to the endpoints of principals."""
