"""A small SVG sheet: text, boxes, bars and arrows with the colours of torchcopy's pictures, light and dark.

The pictures are self-contained: no script, no font, no reference to anything outside. All classes begin with
`tc-`, as a style inside an inline SVG applies to the whole page around it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

WIDTH = 780
MARGIN = 20
CHARACTER_WIDTH = 7.3  # of the monospaced text, 12 px; a little more than it takes
_PROSE_CHARACTER_WIDTH = 7.6  # of the sentences, 14 px: wide letters included

# name: (light, dark)
_COLOURS = {
    "ground": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#3d444d"),
    "a": ("#0969da", "#4493f8"),
    "b": ("#bc4c00", "#e0823d"),
    "both": ("#8250df", "#ab7df8"),
}

_STYLE = """
.tc-text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
.tc-prose { font: 14px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif }
.tc-head { font: 600 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; letter-spacing: .04em }
.tc-outline { fill: none; stroke-width: 1.2 }
.tc-dashed { stroke-dasharray: 5 4 }
.tc-faint { opacity: .45 }
"""


def _rules(theme: int) -> str:
    return " ".join(
        f".tc-fill-{name} {{ fill: {colours[theme]} }} .tc-stroke-{name} {{ stroke: {colours[theme]} }}"
        for name, colours in _COLOURS.items()
    )


class Sheet:
    """An SVG that is drawn from the top down; `below` is where the next thing goes."""

    def __init__(self, title: str) -> None:
        self._root = ET.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "role": "img",
                "class": "tc-sheet",
                "aria-label": _printable(title),
            },
        )
        style = f"{_STYLE}{_rules(0)} @media (prefers-color-scheme: dark) {{ {_rules(1)} }}"
        ET.SubElement(self._root, "style").text = style
        self._ground = ET.SubElement(self._root, "rect", {"class": "tc-fill-ground", "rx": "6"})
        self.below = float(MARGIN)

    def text(self, x: float, y: float, words: str, *, colour: str = "ink", anchor: str = "start") -> None:
        """Monospaced text with its baseline at `y`."""
        at = {"x": _number(x), "y": _number(y), "class": f"tc-text tc-fill-{colour}", "text-anchor": anchor}
        ET.SubElement(self._root, "text", at).text = _printable(words)

    def prose(self, words: str) -> None:
        """A paragraph over the whole width."""
        for line in wrapped(words, int((WIDTH - 2 * MARGIN) / _PROSE_CHARACTER_WIDTH)):
            at = {"x": str(MARGIN), "y": _number(self.below + 14), "class": "tc-prose tc-fill-ink"}
            ET.SubElement(self._root, "text", at).text = line
            self.below += 20
        self.below += 10

    def heading(self, words: str) -> None:
        """A small heading above what follows."""
        at = {"x": str(MARGIN), "y": _number(self.below + 12), "class": "tc-head tc-fill-quiet"}
        ET.SubElement(self._root, "text", at).text = words
        self.below += 24

    def bar(self, x: float, y: float, width: float, height: float, colour: str, *, faint: bool = False) -> None:
        """A filled rectangle."""
        at = _place(x, y, max(width, 1.0), height) | {"rx": "1.5"}
        ET.SubElement(self._root, "rect", at | {"class": f"tc-fill-{colour}{' tc-faint' if faint else ''}"})

    def outline(
        self, x: float, y: float, width: float, height: float, colour: str = "quiet", *, dashed: bool = False
    ) -> None:
        """An empty rectangle."""
        at = _place(x, y, width, height) | {"rx": "4"}
        ET.SubElement(
            self._root, "rect", at | {"class": f"tc-outline tc-stroke-{colour}{' tc-dashed' if dashed else ''}"}
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        """A small disc."""
        at = {"cx": _number(x), "cy": _number(y), "r": "5", "class": f"tc-fill-{colour}"}
        ET.SubElement(self._root, "circle", at)

    def curve(self, data: str, colour: str = "quiet", *, dashed: bool = False, width: float = 1.4) -> None:
        """A line along SVG path data."""
        at = {"d": data, "class": f"tc-outline tc-stroke-{colour}{' tc-dashed' if dashed else ''}"}
        ET.SubElement(self._root, "path", at | {"style": f"stroke-width: {_number(width)}"})

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """An arrow that leaves and arrives level."""
        middle = (x + to_x) / 2
        tip = to_x - 6
        self.curve(
            f"M{_number(x)} {_number(y)} C{_number(middle)} {_number(y)} {_number(middle)} {_number(to_y)} "
            f"{_number(tip)} {_number(to_y)}"
        )
        head = f"M{_number(to_x)} {_number(to_y)} l-8 -4 v8 z"
        ET.SubElement(self._root, "path", {"d": head, "class": "tc-fill-quiet"})

    def box(self, x: float, middle: float, words: str, colour: str = "quiet", *, filled: bool = False) -> float:
        """A box around a word, its middle at height `middle`; its right end."""
        words = shortened(words, 40)
        width = box_width(words)
        if filled:
            self.bar(x, middle - 12, width, 24, colour)
        else:
            self.outline(x, middle - 12, width, 24, colour)
        self.text(x + width / 2, middle + 4, words, colour="ground" if filled else "ink", anchor="middle")
        return x + width

    def to_svg(self) -> str:
        """The finished picture."""
        height = _number(self.below + MARGIN - 10)
        self._root.attrib.update({"viewBox": f"0 0 {WIDTH} {height}", "width": str(WIDTH), "height": height})
        self._root.attrib["style"] = "max-width: 100%; height: auto"
        self._ground.attrib.update({"width": str(WIDTH), "height": height})
        return ET.tostring(self._root, encoding="unicode")


def box_width(words: str) -> float:
    """How wide the box around `words` is."""
    return len(shortened(words, 40)) * CHARACTER_WIDTH + 18


def shortened(words: str, length: int) -> str:
    """`words`, its middle left out where it is longer than `length`."""
    if len(words) <= length:
        return words
    kept = (length - 1) // 2
    return f"{words[: length - 1 - kept]}…{words[-kept:]}"


def wrapped(words: str, width: int) -> list[str]:
    """The lines that `words` takes, `width` characters each; what is longer than a line is cut in pieces."""
    lines: list[str] = []
    for word in _printable(words).split():
        for piece in (word[k : k + width] for k in range(0, len(word), width)):
            if lines and len(lines[-1]) + 1 + len(piece) <= width:
                lines[-1] += f" {piece}"
            else:
                lines.append(piece)
    return lines


def _printable(words: str) -> str:
    """`words` without what XML cannot hold, such as control characters in a dictionary's key."""
    return "".join(c if c.isprintable() else "�" for c in words)


def _place(x: float, y: float, width: float, height: float) -> dict[str, str]:
    return {"x": _number(x), "y": _number(y), "width": _number(width), "height": _number(height)}


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
