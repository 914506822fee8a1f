"""The way of a charged call: from the key to the charge, the upstream, and the keep or the refund."""

from pictures import svg

WIDTH, HEIGHT = 960, 330
BOX_WIDTH, BOX_HEIGHT = 150, 62
ROW, LOWER = 96, 216
SUBTITLE = "Each blue step is one durable transaction. A call is kept or refunded, never both."
COLUMNS = (24, 208, 392, 576, 786)


def drawn() -> str:
    """The picture."""
    key, charge, work, keep = COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[3]
    end = COLUMNS[4]
    middle, lower = ROW + BOX_HEIGHT / 2, LOWER + BOX_HEIGHT / 2
    return svg.document(
        WIDTH,
        HEIGHT,
        [
            svg.text(24, 32, "A charged call", more='font-size="15" font-weight="bold"'),
            svg.text(24, 54, SUBTITLE, "faint"),
            *_step(key, ROW, "Key", "its hash, the body", "intent and price"),
            *_step(charge, ROW, "Charge", "checks key and balance", "takes units, opens call", "strong"),
            *_step(work, ROW, "Upstream", "channels in order", "under one deadline"),
            *_step(keep, ROW, "Keep", "closes the call", "as delivered", "strong"),
            *_answer(end, ROW, "200", "the answer leaves", "after the commit"),
            svg.arrow(key + BOX_WIDTH, middle, charge, middle),
            svg.arrow(charge + BOX_WIDTH, middle, work, middle),
            svg.arrow(work + BOX_WIDTH, middle, keep, middle),
            svg.arrow(keep + BOX_WIDTH, middle, end, middle),
            svg.arrow(key + BOX_WIDTH / 2, ROW + BOX_HEIGHT, key + BOX_WIDTH / 2, LOWER),
            *_answer(key, LOWER, "400 401 413 503", "before the charge", ""),
            svg.arrow(charge + BOX_WIDTH / 2, ROW + BOX_HEIGHT, charge + BOX_WIDTH / 2, LOWER),
            *_answer(charge, LOWER, "401 402 503", "the transaction", "changed nothing"),
            svg.arrow(work + BOX_WIDTH / 2, ROW + BOX_HEIGHT, work + BOX_WIDTH / 2, LOWER),
            svg.text(work + BOX_WIDTH / 2 + 10, ROW + BOX_HEIGHT + 26, "failed, late,", "faint"),
            svg.text(work + BOX_WIDTH / 2 + 10, ROW + BOX_HEIGHT + 42, "process died", "faint"),
            *_step(work, LOWER, "Refund", "returns the units, by", "the call or the sweep", "strong"),
            svg.arrow(work + BOX_WIDTH, lower, keep, lower),
            *_answer(keep, LOWER, "500", "after the refund's", "commit"),
            svg.text(
                24, HEIGHT - 18,
                "Result of a commit unknown: the connection ends without an answer.", "faint",
            ),
        ],
    )  # fmt: skip


def _step(x: float, y: float, name: str, first: str, second: str, kind: str = "box") -> list[str]:
    return [svg.box(x, y, BOX_WIDTH, BOX_HEIGHT, kind), *_lines(x, y, name, first, second)]


def _answer(x: float, y: float, name: str, first: str, second: str) -> list[str]:
    return [svg.box(x, y, BOX_WIDTH, BOX_HEIGHT, "ground"), *_lines(x, y, name, first, second)]


def _lines(x: float, y: float, name: str, first: str, second: str) -> list[str]:
    middle = x + BOX_WIDTH / 2
    return [
        svg.text(middle, y + 20, name, anchor="middle", more='font-weight="bold"'),
        svg.text(middle, y + 38, first, "faint", "middle", 'font-size="11"'),
        svg.text(middle, y + 53, second, "faint", "middle", 'font-size="11"'),
    ]
