"""What people declare of themselves beyond the forge, and how far the other side proves it."""
