"""Makes the image of the report that the README and the documentation show.

    segmeter demo --out runs/demo
    python docs/report_image.py runs/demo

Needs Chromium. Writes docs/images/report.png, with 256 colours: half the size.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import segmeter

TO = Path(__file__).parent / "images" / "report.png"
SIZE = (1280, 1660)  # to the end of the first two charts


def main(run: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder, "report.html"), Path(folder, "shot.png")
        segmeter.open_run(run).report(page)
        size = f"--window-size={SIZE[0]},{SIZE[1]}"
        browser = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", size]
        subprocess.run([*browser, f"--screenshot={shot}", page.as_uri()], check=True)
        with Image.open(shot) as image:
            image.convert("RGB").quantize(256).save(TO, optimize=True)
    print(f"{TO}: {TO.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1])
