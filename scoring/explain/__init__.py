"""Turn reason codes into sentences."""
