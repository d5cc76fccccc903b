"""The runtime, the queue, jobs and the heartbeat."""
