"""The verdicts that a check gives, beside those that errors carry (API-ERROR, UNKNOWN)."""

from __future__ import annotations

CLEAN = "CLEAN"
"""Nothing was found in what was run."""
RACE = "RACE"
"""Nothing orders two accesses, so some timing gives wrong data."""
HANG = "HANG"
"""Some timing leaves a wait without an answer."""
CERTAIN_HANG = "HANG!"
"""Every timing that was tried does."""
WRONG_RESULT = "WRONG-RESULT"
"""The data differ from the reference, and no race explains it."""
UNKNOWN = "UNKNOWN"
"""Nothing is claimed: something was not modelled, or not all of what was asked for was run."""
