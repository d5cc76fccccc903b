"""Sites and worlds behind the tests of the pages, from rows drawn by hand to a worker over a simulated network."""
