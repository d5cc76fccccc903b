"""Cases, features as of the opening, labels and track records."""
