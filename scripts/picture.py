"""`python -m scripts.picture`: what `python -m examples.incidents` prints -> docs/incidents.svg, the picture of the README.

The text is that of the program, line by line; `tests/system/test_examples.py` compares it with a run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/incidents.svg"
FIRST, LAST = "3. Read what an agent changed", "5. A merge that was a mistake"
COLUMN, LINE, MARGIN, BAR = 7.8, 18, 20, 34
BACKGROUND, FRAME, TEXT, HEADING, RULE = "#17191f", "#23262e", "#d7dae0", "#8fd3ff", "#6c7280"


def svg(printed: str) -> str:
    """Draw the chapters between `FIRST` and `LAST` as a terminal shows them."""
    lines = printed[printed.index(FIRST) : printed.index(LAST)].rstrip().splitlines()
    width = round(max(map(len, lines)) * COLUMN) + 2 * MARGIN
    height = BAR + len(lines) * LINE + MARGIN
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + (place + 1) * LINE}" fill="{_colour(line)}" xml:space="preserve">{escape(line)}</text>'
        for place, line in enumerate(lines)
        if line
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>python -m examples.incidents: the changes of a branch, a merge, and a conflict that is settled with a file</title>
<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>
<path d="M0 {BAR - 8}V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{BAR - 16}z" fill="{FRAME}"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">
<text x="{MARGIN}" y="18" fill="{RULE}">$ python -m examples.incidents</text>
{rows}
</g>
</svg>
"""


def _colour(line: str) -> str:
    if line[:1].isdigit():
        return HEADING
    return RULE if set(line) <= {" ", "-"} else TEXT


def main() -> None:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "examples.incidents", folder]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    PICTURE.write_text(svg(printed), "utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
