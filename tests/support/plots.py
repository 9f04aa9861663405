"""Texts of a plot that cannot be read: cut by the edge, or covered by another."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points of overlap that do not matter: the boxes of texts are a little larger than their letters.
_SLACK = 2.0


def texts_of(figure: Figure) -> list[str]:
    """Return all texts that are visible."""
    return [text.get_text() for text in _texts(figure)]


def unreadable_texts(figure: Figure) -> list[str]:
    """Return texts that are outside of the figure, that overlap, or that are too small at half the size."""
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    figure.draw(renderer)
    boxes = [(text, text.get_window_extent(renderer).padded(-_SLACK)) for text in _texts(figure)]
    edge = figure.bbox
    problems = [
        f"outside: {text.get_text()!r}"
        for text, box in boxes
        if box.x0 < edge.x0 or box.x1 > edge.x1 or box.y0 < edge.y0 or box.y1 > edge.y1
    ]
    problems += [
        f"covers: {one.get_text()!r} and {other.get_text()!r}"
        for (one, first), (other, second) in combinations(boxes, 2)
        if first.overlaps(second)
    ]
    return problems + [f"small: {text.get_text()!r}" for text, _ in boxes if float(text.get_fontsize()) < 12]


def _texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
