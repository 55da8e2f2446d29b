"""The command line: one file per command."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point; everything heavy is imported by the command that needs it."""
    from segmeter.cli.app import run_app

    run_app()
