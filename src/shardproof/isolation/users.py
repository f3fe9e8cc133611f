"""Unprivileged users for programs that are not trusted: uids that no account and no process has."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
from collections.abc import Iterator
from pathlib import Path

OWN_USERS = range(61184, 65520)
"""uids that distributions set aside for services of one run."""


def own_users() -> Iterator[int | None]:
    """One uid after the other, in an order by chance, each once before any comes again; None where there is none.

    Accounts and processes are looked at when a round begins, so that a program of many costs no look of its own.
    """
    while True:
        running, dealt = _users_running(), 0
        for user in sorted(OWN_USERS, key=lambda _: secrets.randbits(32)):
            if user not in running and _mapped(user) and not _known(user):
                dealt += 1
                yield user
        if not dealt:
            yield None


def _known(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _users_running() -> set[int]:
    users = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            users.add(path.stat().st_uid)
    return users


def _mapped(user: int) -> bool:
    try:
        lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    ranges = [[int(number) for number in line.split()] for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


def needs_user(level: str) -> bool:
    """Whether a program at `level` runs as a user of its own: wherever root starts it."""
    return level != "none" and os.geteuid() == 0
