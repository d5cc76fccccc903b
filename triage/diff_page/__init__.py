"""A diff as rows with findings at their lines."""
