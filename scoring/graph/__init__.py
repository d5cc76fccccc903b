"""A graph neural network over contributors, repositories and pull requests: tables, network, stored states."""
