"""Geometry for inline SVG."""
