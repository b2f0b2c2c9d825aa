# mypy: ignore-errors
"""Kernels that read one number from bytes, as Python's int() and float() would, several digits at a time.

A place in the text is its address: handing arrays from one function to the next would count references at every number
read, which costs more than reading it. The text must go on for 64 bytes and end in something else than a digit.

numba compiles these functions into those of `text_kernels` and notices no change here: clear its cache after one.
"""

import sys

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

SPACE, PLUS, MINUS, POINT, ZERO, LETTER_E, SMALL_LETTER_E = 32, 43, 45, 46, 48, 69, 101

_ASCII_ZEROS = np.uint64(0x3030303030303030)
_TEN_TO_HIGH_BIT = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)

_SMALL_POWERS = 10 ** np.arange(16)
_LOWEST_POWER, _HIGHEST_POWER = -90, 60  # beyond them a float32 is zero or infinite, whatever the mantissa
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(_LOWEST_POWER, _HIGHEST_POWER + 1)])
_FULL_MANTISSA = 10**17  # one digit more still fits an int64
_FULL_EXPONENT = 10**15  # far beyond what the digits of any file can shift back
_EXACT_MANTISSA, _EXACT_POWER = 2**53, 22  # up to here both are exact in float64: one operation rounds as float() does


@intrinsic
def load_byte(typing_context, at):
    """Load the byte at an address."""

    def generate(context, builder, signature, arguments):
        byte = builder.load(builder.inttoptr(arguments[0], context.get_value_type(types.uint8).as_pointer()))
        return builder.zext(byte, context.get_value_type(types.int64))

    return types.int64(types.int64), generate


@intrinsic
def load_word(typing_context, at):
    """Load the eight bytes at an address as one integer, the first byte lowest."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], context.get_value_type(types.uint64).as_pointer())
        word = builder.load(pointer, align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(types.int64), generate


@intrinsic
def count_trailing_zeros(typing_context, word):
    """Count the zero bits below the lowest one bit of a word that has one."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


@njit(nogil=True, forceinline=True)
def _read_eight_digits(at):
    """Read up to eight decimal digits at once: their value and their number (8: there may be more)."""
    word = load_word(at) ^ _ASCII_ZEROS
    others = (word + _TEN_TO_HIGH_BIT | word) & _HIGH_BITS
    n_digits = 8
    if others:
        n_digits = np.int64(count_trailing_zeros(others) >> np.uint64(3))
        word = word << np.uint64(63 - 8 * n_digits) << np.uint64(1)
    # Join neighbours: digits to pairs, pairs to fours, fours to eight.
    word = word * np.uint64(10 << 8 | 1) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 << 16 | 1) >> np.uint64(16)
    word = (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10000 << 32 | 1) >> np.uint64(32)
    return np.int64(word), n_digits


@njit(nogil=True, forceinline=True)
def _read_digits(at):
    """Read up to fifteen decimal digits: their value and their number (16: there may be more)."""
    value, n_digits = _read_eight_digits(at)
    if n_digits == 8:
        rest, n_rest = _read_eight_digits(at + 8)
        value, n_digits = value * _SMALL_POWERS[n_rest] + rest, 8 + n_rest
    return value, n_digits


@njit(nogil=True, forceinline=True)
def read_id(at):
    """Read an id: its value (-1: unsure) and the address after it."""
    value, n_digits = _read_digits(at)
    return (value if 0 < n_digits < 16 else -1), at + n_digits


@njit(nogil=True, forceinline=True)
def read_value(at):
    """Read a number as float32: its value and the address after it (-1: unsure)."""
    whole = load_byte(at) - ZERO
    if 0 <= whole <= 9:
        if load_byte(at + 1) <= SPACE:
            return np.float32(whole), at + 1
        if load_byte(at + 1) == POINT:
            fraction, n_fraction = _read_digits(at + 2)
            after = at + 2 + n_fraction
            if n_fraction < 16 and load_byte(after) <= SPACE:
                power = _SMALL_POWERS[n_fraction]
                mantissa = whole * power + fraction
                if mantissa <= _EXACT_MANTISSA:
                    return np.float32(mantissa / power), after
    return _read_any_value(at)


@njit(nogil=True)
def _read_any_value(at):
    """Read a number of any length, with or without sign and exponent; answers as `read_value`."""
    sign = 1.0
    if load_byte(at) == MINUS or load_byte(at) == PLUS:
        sign = 1.0 if load_byte(at) == PLUS else -1.0
        at += 1
    mantissa, exponent, at = _read_mantissa(at)
    if at >= 0 and (load_byte(at) == LETTER_E or load_byte(at) == SMALL_LETTER_E):
        shift, at = _read_exponent(at + 1)
        exponent += shift
    if at < 0 or (mantissa > 0 and exponent > _HIGHEST_POWER):
        return np.float32(0), np.int64(-1)
    if mantissa == 0 or exponent < _LOWEST_POWER:
        return np.float32(0), at
    if mantissa <= _EXACT_MANTISSA and abs(exponent) <= _EXACT_POWER:
        power = _POWERS[abs(exponent) - _LOWEST_POWER]
        low = high = np.float32(sign * (mantissa / power if exponent < 0 else mantissa * power))
    else:
        # Digits cut off, mantissa, power and product err by less than 2^-50 together: where all of this interval rounds
        # to one float32, float(), which lies inside it, does too.
        near = sign * (mantissa * _POWERS[exponent - _LOWEST_POWER])
        low, high = np.float32(near * (1 - 2.0**-50)), np.float32(near * (1 + 2.0**-50))
    return low, (at if low == high and np.isfinite(low) else np.int64(-1))


@njit(nogil=True)
def _read_mantissa(at):
    """Read digits with or without a point: mantissa, exponent and the address after them (-1: there is no digit)."""
    mantissa, exponent = np.int64(0), np.int64(0)
    has_point = has_digits = False
    while True:
        digit = load_byte(at) - ZERO
        if 0 <= digit <= 9:
            has_digits = True
            is_kept = mantissa < _FULL_MANTISSA
            if is_kept:
                mantissa = 10 * mantissa + digit
            exponent += np.int64(not is_kept) - np.int64(has_point)
        elif digit == POINT - ZERO and not has_point:
            has_point = True
        else:
            return mantissa, exponent, (at if has_digits else np.int64(-1))
        at += 1


@njit(nogil=True)
def _read_exponent(at):
    """Read the whole number after the letter e: its value and the address after it (-1: there is no digit)."""
    sign = 1
    if load_byte(at) == MINUS or load_byte(at) == PLUS:
        sign = 1 if load_byte(at) == PLUS else -1
        at += 1
    begin = at
    exponent = np.int64(0)
    while ZERO <= load_byte(at) <= ZERO + 9:
        exponent = min(10 * exponent + load_byte(at) - ZERO, _FULL_EXPONENT)
        at += 1
    return sign * exponent, (at if at > begin else np.int64(-1))
