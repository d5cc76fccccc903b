"""The inbox and one pull request: the list, the pane, the diff, and what a maintainer does there."""
