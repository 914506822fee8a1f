"""The first minute as an animated picture: runs `make demo` on a terminal and draws what it prints, and when.

`make screenshots` writes docs/first-minute.svg.
"""

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

from tests.rig.waiting import free_port

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "first-minute.svg"
LINE_PX, CHAR_PX, ROWS, COLUMNS = 17, 7.2, 30, 112
READ_S, GAP_MAX_S, REST_S = 0.8, 1.2, 6.0
"""The least and the longest pause before a step, and how long the end stays before it begins again."""
STYLES = {"1": "strong-text", "2": "faint", "32": "done", "36": "command"}
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_SECRET = re.compile(r"((?:token=)?mynalink_[0-9a-f]{8}|myna_[0-9a-f]{6})[0-9a-f]+")
COLOURS = """.term{fill:#0d1117} text{fill:#e6edf3;white-space:pre} .strong-text{font-weight:bold}
.faint{fill:#9198a1} .done{fill:#3fb950} .command{fill:#39c5cf}"""


def recorded() -> list[tuple[float, str]]:
    """The lines of a demo on a terminal, each with the second in which it was printed."""
    port = free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith("MYNA_")}
    env |= {
        "PYTHONPATH": str(ROOT),
        "MYNA_PORT": str(port),
        "VOICE": "espeak",
        "TERM": "xterm",
        "COLUMNS": "200",
    }
    lines, began = [(0.0, "\x1b[1m$ make demo\x1b[0m")], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        screen, terminal = pty.openpty()
        demo = subprocess.Popen(
            [sys.executable, "-m", "demo"], cwd=folder, env=env, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        with os.fdopen(screen, "rb") as output:
            for line in output:
                lines.append((time.monotonic() - began, line.decode().rstrip().replace(str(port), "8080")))
                if "mynalink_" in lines[-1][1]:
                    break
            demo.send_signal(signal.SIGINT)
            demo.wait(60)
    return lines


def drawn(lines: list[tuple[float, str]]) -> str:
    """The picture. It runs by rules of style alone, so it moves wherever an SVG is shown."""
    times, now, last = [], 0.6, 0.0
    for at, line in lines:
        now, last = now + min(max(at - last, 0 if line else READ_S), GAP_MAX_S), at
        times.append(now)
    whole = now + REST_S
    rules, texts, places = [], [], ["0%{transform:translateY(0)}"]
    for number, (at, (_, line)) in enumerate(zip(times, lines, strict=True)):
        share = at / whole * 100
        rules.append(
            f"@keyframes l{number}{{0%,{share:.2f}%{{opacity:0}}{share + 0.01:.2f}%,100%{{opacity:1}}}}"
        )
        style = f'style="animation:l{number} {whole:.1f}s linear infinite"'
        texts.append(f'<text x="14" y="{(number + 1) * LINE_PX:.0f}" {style}>{_spans(line)}</text>')
        if number >= ROWS:
            up = (number - ROWS + 1) * LINE_PX
            places.append(f"{share:.2f}%,{share + 0.01:.2f}%{{transform:translateY(-{up}px)}}")
    places.append(f"100%{{transform:translateY(-{max(len(lines) - ROWS, 0) * LINE_PX}px)}}")
    width, height = round(COLUMNS * CHAR_PX) + 28, ROWS * LINE_PX + 24
    scroll = f"@keyframes up{{{''.join(places)}}} .up{{animation:up {whole:.1f}s step-end infinite}}"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} font-size="12">',
        f"<style>{COLOURS} {scroll} {' '.join(rules)}</style>",
        f'<clipPath id="screen"><rect y="6" width="{width}" height="{height - 12}"/></clipPath>',
        '<rect class="term" width="100%" height="100%" rx="8"/>',
        '<g clip-path="url(#screen)"><g transform="translate(0 8)"><g class="up">',
        *texts,
        "</g></g></g>",
        "</svg>",
    ]) + "\n"  # fmt: skip


def _spans(line: str) -> str:
    """The line with its colours as classes, and secrets and what does not fit cut."""
    parts = _SGR.split(_SECRET.sub(r"\1…", line))
    spans, left, kind = [], COLUMNS, ""
    for number, part in enumerate(parts):
        if number % 2:
            kind = " ".join(STYLES[code] for code in part.split(";") if code in STYLES)
        elif part and left > 0:
            spans.append(f'<tspan class="{kind}">{escape(part[:left], quote=False)}</tspan>')
            left -= len(part)
    return "".join(spans)


if __name__ == "__main__":
    OUT.write_text(drawn(recorded()), encoding="utf-8")
