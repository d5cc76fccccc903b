"""Facts that people declare of themselves beyond the forge, counted as far as the other side proves them."""
