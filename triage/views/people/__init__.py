"""People: a contributor, the leaderboard, and the maintainers of this site."""
