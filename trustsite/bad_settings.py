"""A setting that cannot be used, told in one sentence: which one, what is wrong, where it is explained."""

import re

from environs import EnvError, EnvValidationError

_NAMED = re.compile(r'Environment variable "(\w+)" ')


def sentence_of(problem: EnvError) -> str:
    """One sentence for whoever set it."""
    named = _NAMED.match(str(problem))
    if named is None or not isinstance(problem, EnvValidationError):
        return str(problem)
    told = problem.error_messages
    words = "; ".join(str(one).rstrip(".") for one in told) if isinstance(told, list) else str(told)
    return f"{named[1]} cannot be used: {words[:1].lower()}{words[1:]}. See .env.example."
