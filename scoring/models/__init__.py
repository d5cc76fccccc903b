"""Features in; P(clean) with its band out."""
