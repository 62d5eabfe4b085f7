"""Labels of a map: names beside their points and lines, none over another, the most important first."""

from typing import Literal

import msgspec

#: Approximate width of a letter and height of a line, in units of the image.
_LETTER, _LINE = 6.8, 15.0
_GAP = 4.0
_MAX_LABELS = 40
_MAX_TEXT = 32
Anchor = Literal["start", "middle", "end"]


class MapLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A text in the image, and the end at which it is anchored."""

    x: float
    y: float
    anchor: Anchor
    text: str


class LabelBox(msgspec.Struct, frozen=True):
    """A part of the image."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "LabelBox") -> bool:
        """Whether both have a place in common."""
        return not (
            self.right <= other.left or other.right <= self.left or self.bottom <= other.top or other.bottom <= self.top
        )


class LabelPlacer:
    """Places labels one after the other where there is room."""

    def __init__(self, width: float, height: float) -> None:
        self._frame = LabelBox(0, 0, width, height)
        self._taken: list[LabelBox] = []
        self._left = _MAX_LABELS

    def block(self, x: float, y: float, radius: float) -> None:
        """Keep the place of a point free."""
        self._taken.append(LabelBox(x - radius, y - radius, x + radius, y + radius))

    def block_box(self, left: float, top: float, right: float, bottom: float) -> None:
        """Keep a part of the image free."""
        self._taken.append(LabelBox(left, top, right, bottom))

    def beside(self, x: float, y: float, radius: float, text: str) -> MapLabel | None:
        """Place a name to the right, left, above or below a point; None where there is no room."""
        off = radius + _GAP
        return self._first(
            text,
            [
                MapLabel(x=x + off, y=y + 4, anchor="start", text=text),
                MapLabel(x=x - off, y=y + 4, anchor="end", text=text),
                MapLabel(x=x, y=y - off, anchor="middle", text=text),
                MapLabel(x=x, y=y + off + 10, anchor="middle", text=text),
            ],
        )

    def on_line(self, x: float, y: float, text: str) -> MapLabel | None:
        """Place a name above a place of a line, or below it."""
        above, below = (MapLabel(x=x, y=y + dy, anchor="middle", text=text) for dy in (-_GAP, _LINE))
        return self._first(text, [above, below])

    def _first(self, text: str, places: list[MapLabel]) -> MapLabel | None:
        if not text or len(text) > _MAX_TEXT or self._left <= 0:
            return None
        for label in places:
            box = label_box(label)
            inside = (
                box.left >= self._frame.left
                and box.right <= self._frame.right
                and box.top >= self._frame.top
                and box.bottom <= self._frame.bottom
            )
            if inside and not any(box.meets(other) for other in self._taken):
                self._taken.append(box)
                self._left -= 1
                return label
        return None


def label_box(label: MapLabel) -> LabelBox:
    """Return the part of the image that a label takes, as far as letters are alike."""
    width = len(label.text) * _LETTER
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return LabelBox(left, label.y - _LINE + 3, left + width, label.y + 3)
