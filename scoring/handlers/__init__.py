"""Messages from the web's outbox, written into the worker's store."""
