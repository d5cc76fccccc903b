"""The fast lane, the lists of what was decided, and the dashboard."""
