"""Parsers: every function of segmeter that decodes a file format, found in the source."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import segmeter

__all__ = ["PACKAGE", "functions_run", "parsers"]

PACKAGE = Path(segmeter.__file__).parent
# Calls that decode what a file holds, by the end of their name.
DECODERS = {
    "json.load", "json.loads", "np.load", "np.fromfile", "np.loadtxt", "np.genfromtxt",
    "cv2.imdecode", "cv2.imread", "Image.open", "torch.load", "safe_open", "load_file",
    "tomllib.load", "tomllib.loads", "csv.reader", "csv.DictReader", "pq.read_table", "ParquetFile",
    "ipc.open_stream", "ipc.open_file", "tarfile.open", "ZipFile", "gzip.open", "gzip.decompress",
    "zlib.decompress", "nibabel.load", "dcmread", "loadmat", "h5py.File", "InferenceSession",
    "ReadImage", "reader.Execute", "ElementTree.parse", "ElementTree.fromstring", "pickle.load",
    "pickle.loads", "yaml.safe_load",
}  # fmt: skip
LAST_NAMES = {name.rpartition(".")[2] for name in DECODERS}
CALLED = re.compile(rf"\b(?:{'|'.join(sorted(LAST_NAMES))})\s*\(")


def parsers() -> Iterator[tuple[str, int]]:
    """Module and function, and the line at which the function begins."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if CALLED.search(text):  # most modules need not be parsed
            for function, line in _decoding(ast.parse(text)):
                yield f"{path.relative_to(PACKAGE)}:{function}", line


def _decoding(tree: ast.AST) -> Iterator[tuple[str, int]]:
    left: list[tuple[ast.AST, ast.FunctionDef | None]] = [(tree, None)]
    while left:
        parent, inside = left.pop()
        for node in ast.iter_child_nodes(parent):
            function = node if isinstance(node, ast.FunctionDef) else inside
            if isinstance(node, ast.Call) and function is not None and _decodes(node.func):
                first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
                yield function.name, first
            left.append((node, function))


def _decodes(called: ast.expr) -> bool:
    last = getattr(called, "attr", getattr(called, "id", ""))
    if last not in LAST_NAMES:
        return False
    name = ast.unparse(called)
    return any(name == known or name.endswith(f".{known}") for known in DECODERS)


def functions_run(work: Callable[[], object]) -> set[tuple[str, int]]:
    """The functions of segmeter that some work calls: module and first line."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        seen.add(frame.f_code)

    before = sys.gettrace()
    sys.settrace(note)  # a profile function would be called for every built-in function too
    threading.settrace(note)  # for requests that a server answers in threads
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]  # None is allowed
    inside = [code for code in seen if code.co_filename.startswith(str(PACKAGE))]
    return {(str(Path(c.co_filename).relative_to(PACKAGE)), c.co_firstlineno) for c in inside}
