"""Exit codes, the same for every verb."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a shardproof command says with its exit status."""

    HELD = 0
    """Everything that was asked was checked and held."""
    VIOLATED = 1
    """A contract is violated, or a recorded outcome was not reproduced."""
    USAGE = 2
    """The command line or its input could not be used."""
    COULD_NOT_TELL = 3
    """No verdict could be reached."""
    MISMATCH = 4
    """A digest or a schema does not match."""
    NOTHING_RAN = 5
    """Nothing was selected, or nothing ran."""
    OUR_FAULT = 70
    """shardproof itself failed."""
