"""How hard tests with random cases try: forty times as hard as usual with HYPOTHESIS_PROFILE=thorough."""

from __future__ import annotations

from hypothesis import settings

USUAL = 50
"""How many examples hypothesis has for a usual test."""


def tries(usual: int) -> int:
    """How many random cases a test takes, which in a usual run are so many."""
    return max(1, usual * settings.default.max_examples // USUAL)
