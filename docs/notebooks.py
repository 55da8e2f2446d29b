"""Tutorial notebooks: run their cells, store what they show, turn them into pages.

    python docs/notebooks.py [NAME ...]    # run all tutorials (or some) and store their outputs

Code cells run in one process and one empty folder. Lines that begin with `!segmeter` are commands.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

TUTORIALS = Path(__file__).parent / "tutorials"
Cell = dict[str, Any]


def run(notebook: dict[str, Any]) -> None:
    """Run the code cells in the present folder and put their outputs into the notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = list(_outputs("".join(cell["source"]), names, count))


def as_markdown(notebook: dict[str, Any], name: str) -> str:
    """A notebook as a page of the site."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            shell = source.startswith("!")
            code = "\n".join(line.removeprefix("!") for line in source.splitlines())
            parts.append(f"```{'sh' if shell else 'python'}\n{code}\n```")
            parts += map(_shown, cell["outputs"])
    link = f"[Download this page as a notebook]({name}.ipynb)"
    return "\n\n".join([*parts, link]) + "\n"


def _outputs(source: str, names: dict[str, Any], count: int) -> Iterator[Cell]:
    """Printed text, the value of the last expression, and figures."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        value = _commands(source) if source.startswith("!") else _python(source, names)
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        yield {"output_type": "stream", "name": "stdout", "text": text}
    if value is not None:
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = [value._repr_html_()]
        yield _output("execute_result", data, execution_count=count)
    if "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        for number in pyplot.get_fignums():
            file, small = io.BytesIO(), io.BytesIO()
            pyplot.figure(number).savefig(file, format="png", dpi=72)
            pyplot.close(number)
            Image.open(file).convert("RGB").quantize(48).save(small, "png", optimize=True)
            yield _output(
                "display_data", {"image/png": base64.b64encode(small.getvalue()).decode()}
            )


def _output(kind: str, data: dict[str, Any], **more: Any) -> Cell:
    return {"output_type": kind, "data": data, "metadata": {}, **more}


def _python(source: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def _commands(source: str) -> None:
    for line in source.splitlines():
        words = shlex.split(line.removeprefix("!"))
        if words[0] != "segmeter":
            raise ValueError(f"not a command of segmeter: {line}")
        done = command(*words[1:], COLUMNS="80", NO_COLOR="1")
        if done.returncode:
            raise RuntimeError(f"{line}: exit code {done.returncode}\n{done.stderr}")
        print(done.stdout, end="")


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`segmeter WORDS` in a process of its own; `environment` is added to this process's."""
    program = [sys.executable, "-m", "segmeter", *words]
    settings = {**os.environ, **environment}
    return subprocess.run(program, capture_output=True, text=True, check=False, env=settings)


def _shown(output: Cell) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output["data"]
    if "image/png" in data:
        return f'<img alt="Figure" src="data:image/png;base64,{data["image/png"]}">'
    return "".join(data.get("text/html") or ["```text\n", *data["text/plain"], "\n```"])


@contextlib.contextmanager
def empty_folder() -> Iterator[None]:
    """An empty working folder that Python also imports from."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)
            os.chdir(here)


def main() -> None:
    """Run tutorials and write their outputs into them."""
    os.environ["MPLBACKEND"] = "Agg"
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        if len(sys.argv) < 2 or path.stem in sys.argv[1:]:
            notebook = json.loads(path.read_text())
            with empty_folder():
                run(notebook)
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
            print(path)


if __name__ == "__main__":
    main()
