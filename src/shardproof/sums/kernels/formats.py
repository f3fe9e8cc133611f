"""The floating-point formats that the kernels read: where the bits lie and which patterns are no number."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class Format(StrEnum):
    """A floating-point format, named as torch names its dtype."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"

    @property
    def bits(self) -> Bits:
        """Where the fields of this format lie."""
        return _BITS[self]


@dataclass(frozen=True)
class Bits:
    """A sign bit, `exponent` bits and `mantissa` bits, from the top.

    A finite value is (-1)**sign x (F + 2**mantissa if E > 0 else F) x 2**(max(E, 1) - bias - mantissa), where
    E and F are the two fields. `specials` says which patterns are NaN or infinite:
    "ieee": E all ones, F = 0 is infinite, otherwise NaN; "fn": all ones below the sign is NaN, no infinity;
    "fnuz": only the sign bit set is NaN, no infinity and no negative zero.
    """

    exponent: int
    mantissa: int
    bias: int
    specials: Literal["ieee", "fn", "fnuz"] = "ieee"

    @property
    def size(self) -> int:
        """Bytes per value."""
        return (1 + self.exponent + self.mantissa) // 8

    @property
    def magnitude_mask(self) -> int:
        """All bits below the sign."""
        return (1 << (self.exponent + self.mantissa)) - 1

    @property
    def first_special(self) -> int:
        """The lowest magnitude pattern that is no finite number; above the mask where there is none."""
        if self.specials == "ieee":
            return ((1 << self.exponent) - 1) << self.mantissa
        return self.magnitude_mask if self.specials == "fn" else self.magnitude_mask + 1

    def unit(self, field: int) -> int:
        """The exponent of the lowest mantissa bit of values whose exponent field is `field`."""
        return max(field, 1) - self.bias - self.mantissa


_BITS: Final = {
    Format.FLOAT64: Bits(11, 52, 1023),
    Format.FLOAT32: Bits(8, 23, 127),
    Format.FLOAT16: Bits(5, 10, 15),
    Format.BFLOAT16: Bits(8, 7, 127),
    Format.FLOAT8_E4M3FN: Bits(4, 3, 7, "fn"),
    Format.FLOAT8_E5M2: Bits(5, 2, 15),
    Format.FLOAT8_E4M3FNUZ: Bits(4, 3, 8, "fnuz"),
    Format.FLOAT8_E5M2FNUZ: Bits(5, 2, 16, "fnuz"),
}
