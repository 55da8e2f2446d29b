"""Exported tables hold the same numbers, whatever the names in them look like."""

from __future__ import annotations

import csv
import io

from segmeter.core.sections import Column, Label, Note, Section, Table, Value
from segmeter.report.exports import exported, to_csv, to_latex, to_markdown

TABLE = Table(
    "a table/of models",
    [Column("model"), Column("IoU", "%", 1, percent=True), Column("n", digits=0)],
    [
        [Label("a_b & c|d", protocol="corrected"), Value(0.9123, 0.9, 0.95), 3],
        ["plain", Value(None), None],
    ],
    caption="50 % of them",
)


def test_csv_keeps_all_digits_and_parts_intervals() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows[0] == ["model", "iou_percent", "iou_percent_low", "iou_percent_high", "n"]
    assert rows[1][0] == "a_b & c|d (corrected)"
    assert [float(v) for v in rows[1][1:]] == [91.23, 90.0, 95.0, 3.0]
    assert rows[2] == ["plain", "", "", "", ""]


def test_markdown_escapes_bars_and_keeps_its_shape() -> None:
    lines = to_markdown(TABLE).splitlines()
    assert lines[2] == "| model | IoU (%) | n |"
    assert lines[3] == "| --- | ---: | ---: |"
    assert lines[4] == "| a_b & c\\|d (corrected) | 91.2 [90.0–95.0] | 3 |"


def test_latex_escapes_what_latex_would_read() -> None:
    text = to_latex(TABLE)
    assert r"a\_b \& c|d (corrected) & 91.2 {\scriptsize [90.0--95.0]} & 3 \\" in text
    assert r"\caption{50 \% of them}" in text
    assert r"\begin{tabular}{lrr}" in text


def test_every_table_is_written_in_every_format() -> None:
    sections = [Section("s", blocks=[TABLE, Note("no table")])]
    written = exported(sections, ["csv", "md", "tex"])
    assert list(written) == [
        "a-table-of-models.csv",
        "a-table-of-models.md",
        "a-table-of-models.tex",
    ]
    assert all(written.values())
