"""Past pull requests of another forge."""
