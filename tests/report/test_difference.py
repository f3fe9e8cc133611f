"""Where two results part: every place, and none where they are the same."""

import json
import re
from html import unescape

from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.failures.values import same
from shardproof.report.difference import marked, places, told

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["nan", "inf", "<b>"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab<"), inner, max_size=2)
)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_places_are_found_exactly_where_the_judge_says_that_results_differ(actual, expected):
    assert (places(actual, expected) == ()) is same(actual, expected)
    assert bool(told(places(actual, expected), actual, expected)) is not same(actual, expected)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_marks_change_nothing_of_the_value_and_markup_in_it_is_escaped(actual, expected):
    text = marked(actual, places(actual, expected))
    assert json.loads(unescape(re.sub("</?mark>", "", text))) == actual
    assert not re.findall(r"<(?!/?mark>)", text)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_each_place_is_marked_on_every_side_that_has_it(actual, expected):
    found = places(actual, expected)
    marks = [marked(value, found).count("<mark>") for value in (actual, expected)]
    assert max(marks) <= len(found) <= sum(marks)


def test_what_one_side_lacks_is_said():
    assert told(places([1, 2], [1]), [1, 2], [1]) == "differs at [1] (not expected)"
    assert told(places({"a": 1}, {"a": 1, "b": 2}), {"a": 1}, {"a": 1, "b": 2}) == 'differs at ["b"] (missing)'
    assert told(places({"raises": "ValueError"}, [1]), {"raises": "ValueError"}, [1]) == "differs as a whole"


def test_many_places_are_counted_after_the_first():
    actual, expected = list(range(10)), [-1] * 10
    said = told(places(actual, expected), actual, expected)
    assert said == "differs at [0], [1], [2], [3], [4], [5] and 4 places more"


def test_true_is_not_one_and_a_whole_float_is_its_integer():
    assert places([True, 1.0, -0.0, "nan"], [1, 1, 0, "nan"]) == ((0,),)
