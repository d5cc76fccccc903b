"""Fields that a request may carry, read and checked."""
