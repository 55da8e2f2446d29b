"""What the terminal says of damaged masks and folders of one's own: a sentence, a short name."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from .conftest import Typed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"size": [3, 3], "counts": null}', "whole numbers"),
        ('{"size": [3, 3], "counts": [0, 9.5]}', "whole numbers"),
        ('{"size": [3, 3], "counts": {"a": 1}}', "whole numbers"),
        ('{"size": [3, 3], "counts": [0, 8]}', "do not add up"),
        ('{"size": null, "counts": [0, 9]}', "a 'size' of two numbers"),
        ('{"size": [-3, 3], "counts": "aa"}', "-3 x 3"),
        ("[]", "no run-length mask"),
    ],
)
def test_a_damaged_mask_is_refused_in_a_sentence(
    typed: Typed, tmp_path: Path, text: str, said: str
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"size": [3, 3], "counts": [0, 9]}')
    bad.write_text(text)
    code, _, err = typed("measures", "compute", "--as", "object", bad, good)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


def test_a_folder_is_printed_by_its_name(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mask = np.zeros((30, 30), np.uint8)
    mask[5:20, 5:20] = 255
    for folder in ("images", "masks"):
        (tmp_path / "own" / folder).mkdir(parents=True)
    for name in "ab":
        cv2.imwrite(f"own/images/{name}.png", np.full((30, 30, 3), ord(name), np.uint8))
        cv2.imwrite(f"own/masks/{name}.png", mask)
    _, out, err = typed("run", "noc", "-m", "synthetic-oracle", "-m", "disc", "-d", "own",
                        "--rounds", 2, "--workers", 0, "-o", "r")  # fmt: skip
    told = out + err
    told += "".join(typed("compare", "r")[1:]) + typed("runs", ".")[1]
    assert "own" in told
    assert "folder?path" not in told
    assert "1 images" not in told
    assert max(map(len, out.splitlines())) <= 80
    code, out, err = typed("score", "r", "--measure", "dice")  # finds its data by itself
    assert code == 0, err
