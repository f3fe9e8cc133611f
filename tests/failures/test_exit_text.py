"""The exit text of a page is compared as it is written."""

import pytest

from shardproof.failures.compare import compare_exit


@pytest.mark.parametrize("text", ["Exit 01", "Exit \u0661", "Exit +1", "Exit 1 ", "exit 1", "Exit -0"])
def test_another_way_to_write_the_code_is_no_agreement(text):
    """Only plain ASCII digits without leading zeros."""
    assert compare_exit(text, 1).agrees is False


def test_the_plain_text_agrees():
    """And an unknown code is neither."""
    assert [compare_exit("Exit 1", code).agrees for code in (1, 0, None)] == [True, False, None]
