"""Text of others, shown so that nothing in it hides anything."""

from __future__ import annotations

# What would not be seen, or would change the order of what is: control characters and bidirectional controls.
_INVISIBLE = {code: 0x2400 + code for code in range(32) if code not in (9, 10, 13)} | {127: 0x2421}
_INVISIBLE |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)], 0xFFFD)


def visible(text: str) -> str:
    """`text` with signs for characters that would not be seen or would hide others."""
    return text.translate(_INVISIBLE)
