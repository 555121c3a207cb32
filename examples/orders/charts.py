"""The result as a chart: in the terminal, and as a picture."""

import datetime
import textwrap
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

Revenue = Mapping[tuple[datetime.datetime, str], Decimal]
_WIDTH: Final = 50
_LABEL_CHARS_MAX: Final = 28


def in_the_terminal(revenue: Revenue) -> str:
    """A bar a minute."""
    totals: dict[datetime.datetime, Decimal] = {}
    for (minute, _), total in revenue.items():
        totals[minute] = totals.get(minute, Decimal(0)) + total
    most = max(totals.values())
    lines = []
    for minute in sorted(totals):
        eighths = int(totals[minute] * _WIDTH * 8 / most)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        lines.append(f"{minute:%H:%M} {totals[minute]:>12,.2f} {bar}")
    return "\n".join(lines)


def as_a_picture(revenue: Revenue, countries: Sequence[str], dead: Mapping[str, int]) -> bytes:
    """A PNG: revenue by minute and country, and why letters were dead."""
    import io

    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    minutes = sorted({minute for minute, _ in revenue})
    places = range(len(minutes))
    below = [0.0] * len(minutes)
    for country in countries:
        heights = [float(revenue.get((minute, country), 0)) for minute in minutes]
        left.bar(places, heights, bottom=below, width=0.9, label=country)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    left.set_title("Revenue by minute and country")
    left.set_xticks([place for place in places if place % 5 == 0])
    left.set_xticklabels([f"{minutes[place]:%H:%M}" for place in places if place % 5 == 0])
    left.legend(ncols=len(countries), loc="upper left", frameon=False)
    left.set_ylim(0, max(below) * 1.15)
    left.yaxis.set_major_formatter("{x:,.0f}")
    left.set_ylabel("revenue")
    left.set_xlabel("minute of the orders' own time (UTC)")
    reasons = sorted(dead, key=lambda reason: dead[reason])
    right.barh(range(len(reasons)), [dead[reason] for reason in reasons], color="tab:gray")
    right.set_title("Dead letters")
    labels = [textwrap.fill(reason, _LABEL_CHARS_MAX) for reason in reasons]
    right.set_yticks(range(len(reasons)), labels=labels)
    right.set_xlabel("records")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()
