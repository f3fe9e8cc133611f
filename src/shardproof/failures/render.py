"""From an implementation and a variant's checks to one self-contained program, the same bytes everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from shardproof.failures.mechanism import Check
from shardproof.failures.syntax import Parts
from shardproof.failures.values import literal

# The program's own comparison, in the manner of the published page. `values.same` is the judge; a test holds the
# two against each other. The file is not read from the package, so that a change of it is a change of this text.
HEAD = '''"""Failure Map reference implementation. Python standard library only."""
import json
'''
TAIL = """

def plain(value):
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    raise TypeError("not a plain value")


def same(left, right):
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def check(label, arguments, expected):
    try:
        actual = plain(solve(*arguments))
    except Exception as error:
        actual = {"raises": type(error).__name__}
    expected = plain(expected)
    passed = same(actual, expected)
    observations.append({"check": label, "actual": actual, "expected": expected, "passed": passed})


"""
END = """passed = all(observation["passed"] for observation in observations)
print(json.dumps({"observations": observations, "passed": passed}, allow_nan=False))
raise SystemExit(0 if passed else 1)
"""


def calls_of(checks: Sequence[Check]) -> str:
    """The lines that ask all checks, in their order; the same for every implementation of a variant.

    Raises:
        TypeError: an argument or expected value is not plain.
    """
    return "".join(f"{_call(check)}\n" for check in checks)


def render(parts: Parts, n: int, calls: str) -> bytes:
    """Return the program that asks one implementation all checks, prints one JSON object and exits 0 or 1.

    Args:
        parts: the implementation, cut by `parts_of`.
        n: the variant; the program sets N to it.
        calls: the checks, made by `calls_of`.

    Returns:
        ASCII with LF; a function of the arguments alone.

    Raises:
        UnicodeEncodeError: the implementation is not ASCII.
    """
    imports = "".join(f"{line}\n" for line in parts.imports if line != "import json")
    text = f"{HEAD}{imports}\nN = {n}\nobservations = []\n\n\n{parts.body}\n{TAIL}{calls}{END}"
    return text.encode("ascii")


def sha256(source: bytes) -> str:
    """The digest over a program's exact bytes, in hex.

    >>> sha256(b"")[:12]
    'e3b0c44298fc'
    """
    return hashlib.sha256(source).hexdigest()


def _call(check: Check) -> str:
    arguments = "".join(f"{literal(argument)}, " for argument in check.arguments)
    # A tuple of one needs its comma; of several it reads better without the last one.
    arguments = arguments.rstrip(" ") if len(check.arguments) == 1 else arguments.removesuffix(", ")
    return f"check({literal(check.label)}, ({arguments}), {literal(check.expected)})"
