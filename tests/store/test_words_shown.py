"""What files and names say is shown as text: to spreadsheets, Markdown and terminals."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from segmeter.core.sections import Column, Table
from segmeter.core.wording import printable
from segmeter.report.exports import to_csv, to_latex, to_markdown

HOSTILE = ["=1+1", "+1", "-1", "@x", " =1", "\t=1", "\x1b]0;x\x07=1"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_is_a_formula(text: str) -> None:
    table = Table("t", [Column(text), Column("n", digits=0)], [[text, -3]])
    for row in csv.reader(io.StringIO(to_csv(table))):
        assert not row[0].startswith(("=", "+", "-", "@", " ", "\t"))
    assert to_csv(table).endswith(",-3.0\n")  # numbers stay numbers


def test_markdown_holds_no_html_and_no_link() -> None:
    text = "<script>x</script> [a](javascript:x) |\x1b[2J"
    said = to_markdown(Table("t", [Column("a")], [[text]], caption="<b>"))
    assert "<" not in said
    assert "](" not in said
    assert "\x1b" not in said
    assert "\x1b" not in to_latex(Table("t", [Column("a")], [[text]]))


def test_no_control_sequence_reaches_a_terminal() -> None:
    assert printable("a\x1b[2J\x07\u202eb\nc") == "a\\x1b[2J\\x07\\u202eb\nc"


def test_an_ascii_terminal_gets_the_summary(run: Path) -> None:
    words = ["-m", "segmeter", "run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-d", "drawn",
             "--rounds", "2", "--limit", "2", "--out", str(run), "--workers", "0"]  # fmt: skip
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=plain, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("resuming: 4 of 4 jobs were done before")
    assert "noc@90" in done.stdout
    assert done.stdout.isascii()
