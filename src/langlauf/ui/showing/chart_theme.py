"""How charts look where their author does not say: quiet axes, our colours, on whatever lies behind."""

from typing import Any, Literal

Theme = Literal["light", "dark"]
FONT = "Helvetica Neue, Arial, DejaVu Sans, sans-serif"
#: Text, muted text, thin lines, and colours of marks, all of them to be seen on the page's own background.
TEXT: dict[Theme, str] = {"light": "#1b1f24", "dark": "#e8ebef"}
MUTED: dict[Theme, str] = {"light": "#4b5563", "dark": "#aab4c0"}
RULE: dict[Theme, str] = {"light": "#d9dde3", "dark": "#343a44"}
MARKS: dict[Theme, list[str]] = {
    "light": ["#083cb3", "#b45309", "#076e4d", "#a3246b", "#5e676f", "#6d28d9", "#0e7490", "#885e04"],
    "dark": ["#79b0ff", "#f2a65e", "#35d6a8", "#ff8fc0", "#aab4c0", "#c4a5ff", "#5bd0e6", "#f2c14e"],
}
RAMPS: dict[Theme, list[str]] = {"light": ["#cfdff8", "#083cb3"], "dark": ["#254066", "#b9d6ff"]}
_SMALL, _USUAL, _TITLE = 12, 13, 15


def config_of(theme: Theme) -> dict[str, Any]:
    """A Vega-Lite configuration; the author's own lies above it."""
    first = MARKS[theme][0]
    words = {"labelColor": MUTED[theme], "titleColor": TEXT[theme], "labelFontSize": _SMALL, "titleFontSize": _SMALL}
    axis = {"domainColor": RULE[theme], "gridColor": RULE[theme], "tickColor": RULE[theme], "titleFontWeight": 600}
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None, "continuousWidth": 320, "continuousHeight": 240},
        "axis": {**words, **axis, "titlePadding": 10, "labelLimit": 180},
        "legend": words,
        "header": words,
        "title": {"color": TEXT[theme], "fontSize": _TITLE, "fontWeight": 600, "anchor": "start", "offset": 12},
        "range": {"category": MARKS[theme], "ramp": RAMPS[theme], "heatmap": RAMPS[theme], "ordinal": RAMPS[theme]},
        "mark": {"color": first},
        "text": {"color": TEXT[theme], "fontSize": _USUAL},
        "rule": {"color": MUTED[theme]},
        "line": {"strokeWidth": 2.5, "strokeCap": "round"},
        "point": {"size": 50, "filled": True},
        "circle": {"size": 50},
        "bar": {"cornerRadiusEnd": 2},
    }
