"""Jobs that a cluster may do in place of this machine, with equal results (docs/scale.md)."""
