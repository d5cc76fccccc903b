"""Jetstream: the socket process, batches, the cursor, gaps and the event log."""
