"""The installed pytest plugin: it names the marker, and says after tests of the contract what they do not show."""

from __future__ import annotations

from typing import Any

import pytest

_ran = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker that parametrize_with_contract sets, so that --strict-markers knows it."""
    config.addinivalue_line("markers", "shardproof: a clause of shardproof's contract, checked on real processes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note that the contract is tested in this session."""
    if item.get_closest_marker("shardproof") is not None:
        item.config.stash[_ran] = True


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what passed tests of the contract do not show; nothing where there were none."""
    if config.stash.get(_ran, False):
        from shardproof.audit.grade import LIMITS

        terminalreporter.section("shardproof")
        for limit in LIMITS:
            terminalreporter.write_line(limit)
