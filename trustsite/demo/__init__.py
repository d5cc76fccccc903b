"""The demo, the replay and the live demo."""
