"""Record types, and the event log turned into typed tables."""
