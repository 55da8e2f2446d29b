"""The command line: one file per command."""

from __future__ import annotations

import os
import signal
import threading


def main() -> None:
    """Entry point; everything heavy is imported by the command that needs it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)  # until the command starts there is nothing to tidy up
    from segmeter.cli.app import run_app

    run_app()


def _leave(number: int, frame: object) -> None:
    """End at once: an exception in the middle of an import may come out as another one."""
    os.write(2, b"segmeter: interrupted\n")
    os._exit(130)
