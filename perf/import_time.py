"""How long `import segmeter` takes, compared with NumPy and a bare Python, each in a fresh process.

    python perf/import_time.py

Wall time, the median of several processes taken in turn; a bare Python's own start is taken
off. Ends with status 1 where importing segmeter takes 0.3 s or more.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

REPEATS = 9
MOST_SECONDS = 0.3
CODES = {
    "a bare Python": "pass",
    "import numpy": "import numpy",
    "import segmeter": "import segmeter",
    "every name listed": "from segmeter.core import catalogue as c; c.models.names()",
}


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> int:
    for code in CODES.values():
        seconds(code)  # files come from memory afterwards
    taken = [{name: seconds(code) for name, code in CODES.items()} for _ in range(REPEATS)]
    medians = {name: statistics.median(round[name] for round in taken) for name in CODES}
    start, numpy = medians["a bare Python"], medians["import numpy"]
    print(f"{'':<20} {'all':>9} {'less start':>11} {'of numpy':>10}")
    for name, whole in medians.items():
        share = (whole - start) / (numpy - start)
        print(f"{name:<20} {whole:7.3f} s {whole - start:9.3f} s {share:8.2f} x")
    return 0 if medians["import segmeter"] - start < MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
