"""Archives: one zip file to deposit, with data, plans, codebook and software versions."""

from __future__ import annotations

import json
import platform
import tempfile
import zipfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import sqlalchemy as sa

from segmeter.study import database as db
from segmeter.study.exports import export
from segmeter.study.preview import preregistration
from segmeter.study.running import RunningStudy
from segmeter.study.wording import text_page

__all__ = ["write_archive"]

_PACKAGES = ("segmeter", "numpy", "scipy", "fastapi", "pydantic", "sqlalchemy")


def write_archive(study: RunningStudy, path: Path, *, identifiers: bool = False) -> Path:
    """Write the archive; identifiers of the recruiting platform only where asked for."""
    part = path.with_name(f"{path.name}.part")
    with tempfile.TemporaryDirectory() as folder, study.database.snapshot() as connection:
        files = export(connection, study.plan, study.stimuli, Path(folder), identifiers=identifiers)
        asked = sa.select(db.plans).order_by(db.plans.c.since)
        plans = connection.execute(asked).mappings().all()
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            names = sorted(file.name for file in files)
            archive.writestr("README.md", text_page("archive.md", plan=study.plan, files=names))
            archive.writestr("plan.toml", study.plan.text)
            archive.writestr("preregistration.md", preregistration(study.plan, study.stimuli))
            archive.writestr("software.json", _software(study))
            for row in plans:
                if row["hash"] != study.plan.hash:
                    archive.writestr(f"earlier-plans/{row['hash']}.toml", row["text"])
            for file in files:
                archive.write(file, f"data/{file.name}")
    part.replace(path)
    return path


def _software(study: RunningStudy) -> str:
    versions = {name: metadata.version(name) for name in _PACKAGES}
    found = {"versions": versions, "python": platform.python_version(), "plan": study.plan.hash}
    found["database"] = study.database.engine.dialect.name
    found["written"] = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps(found, indent=1)
