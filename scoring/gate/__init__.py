"""Evidence, content, circumstances and thresholds in; lane and reasons out. Pure."""
