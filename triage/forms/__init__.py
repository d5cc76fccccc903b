"""Fields of requests, read and checked."""
