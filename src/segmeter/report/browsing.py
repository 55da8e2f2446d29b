"""Browsing: every session of a run as a page to filter, sort and open, read-only."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from pathlib import PurePath
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from segmeter.core.capabilities import ShowsSessions
from segmeter.core.catalogue import short
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.plans import display_names
from segmeter.core.prompts import round_from_json
from segmeter.core.sections import (
    Block,
    Frame,
    Gallery,
    Illustration,
    Note,
    Outline,
    Replay,
    Section,
)
from segmeter.core.wording import counted
from segmeter.report.elements import filled
from segmeter.report.page import Page, render
from segmeter.store import Run
from segmeter.store.summary_cache import cached_table

PAGE = 50
_GOAL = 0.9
_QUALITY = {"iou": "IoU", "dice": "Dice", "jf": "J&F"}
_FILTERS = ("model", "dataset", "user", "protocol", "class", "size", "result")
_SORTS = {
    "hardest": "reached asc, rounds desc, best asc",
    "easiest": "reached desc, rounds asc, best desc",
    "best": "best desc",
    "worst": "best asc",
    "smallest": "area asc nulls last",
    "largest": "area desc nulls last",
}
_ORDER = 'model, dataset, scene, target, "user", protocol'
_KEY = ("model", "dataset", "scene", "target", "user", "protocol")


class Sessions:
    """The sessions of a run, summarised once, read a page at a time."""

    def __init__(self, run: Run) -> None:
        import duckdb

        self.run = run
        columns = run.columns("rows")
        measure = next((name for name in _QUALITY if name in columns), "")
        if not measure or "target" not in columns:
            raise BadInput(f"runs of '{run.plan.benchmark}' have no sessions to browse")
        self.measure = measure
        self.volumes = "volume_ml" in columns
        area = "min(area)" if "area" in columns else "null::bigint"
        scored = "round" not in columns  # masks that exist: an object has one, and no user
        rows = "(select *, 1 as round, '' as \"user\" from rows)" if scored else "rows"
        self._connection = duckdb.connect(":memory:")
        query = f"""
            select model, dataset, scene, target, "user", protocol,
                   min(label) as class, {area} as area,
                   max({measure}) as best, arg_max({measure}, round) as last,
                   coalesce(min(case when {measure} >= {_GOAL} then round end), max(round))
                       as rounds,
                   coalesce(max({measure}), 0) >= {_GOAL} as reached
            from {rows} group by all order by all"""  # fmt: skip
        # Kept, because a run of 1e5 sessions has 1e4 parts to read (perf/browse.py).
        self._connection.register(
            "made", cached_table(run.state(), "sessions", lambda: run.sql(query))
        )
        none = "true" if self.volumes else "area is null"  # sizes are COCO's, of images
        self._connection.execute(f"""
            create table sessions as select *,
                case when reached then 'reached' else 'failed' end as result,
                case when {none} then '' when area < 1024 then 'small'
                     when area < 9216 then 'medium' else 'large' end as size
            from made""")

    def choices(self) -> dict[str, list[str]]:
        found = {}
        for name in _FILTERS:
            query = f"""select distinct "{name}" from sessions where "{name}" <> '' order by 1"""
            rows = self._connection.execute(f"{query} limit 200").fetchall()
            found[name] = [str(value) for (value,) in rows]
        return found

    def found(self, asked: Mapping[str, str]) -> tuple[int, list[dict[str, Any]]]:
        """How many sessions match, and those of the requested page."""
        wanted = {name: asked[name] for name in _FILTERS if asked.get(name)}
        where = " and ".join(f'"{name}" = ?' for name in wanted) or "true"
        order = _SORTS.get(asked.get("sort", ""), _SORTS["hardest"])
        values = list(wanted.values())
        (many,) = self._connection.execute(
            f"select count(*) from sessions where {where}", values
        ).fetchone() or (0,)
        start = PAGE * _page(asked)
        cursor = self._connection.execute(
            f"select * from sessions where {where} order by {order}, {_ORDER} "
            f"limit {PAGE} offset {start}",
            values,
        )
        names = [column[0] for column in cursor.description or ()]
        return int(many), [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def page(self, asked: Mapping[str, str]) -> str:
        many, rows = self.found(asked)
        number, choices = _page(asked), self.choices()
        names = display_names(self.run.plan.datasets)
        for row in rows:
            row["link"] = "session?" + urlencode({k: row[k] for k in _KEY})
            row["name"] = _object(row["scene"], row["target"])
            row["dataset"] = names.get(row["dataset"], row["dataset"])
        return filled(
            "browse.html",
            title=f"Sessions of {PurePath(self.run.address).name}",
            goal=f"{100 * _GOAL:g} % {_QUALITY[self.measure]}",
            measure=_QUALITY[self.measure],
            size="voxels" if self.volumes else "area, px",
            choices=choices,
            columns=[name for name in _FILTERS[1:5] if len(choices[name]) > 1],
            asked=dict(asked),
            sorts=list(_SORTS),
            rows=rows,
            many=many,
            first=PAGE * number + 1 if rows else 0,
            last=PAGE * number + len(rows),
            before=_link(asked, number - 1) if number else "",
            after=_link(asked, number + 1) if PAGE * (number + 1) < many else "",
        )

    def session(self, asked: Mapping[str, str]) -> str:
        """One session, click by click."""
        key = {name: asked.get(name, "") for name in _KEY}
        every = self.run.job_rows(key["model"], key["dataset"], key["scene"])
        rows = [{"round": 1, "user": "", **row} for row in every]
        rows = [row for row in rows if all(row[name] == key[name] for name in _KEY)]
        rows.sort(key=itemgetter("round"))
        if not rows:
            raise NotFound("no such session in this run")
        title = f"{_object(key['scene'], key['target'])}: {short(key['model'])}"
        names = display_names(self.run.plan.datasets)
        heading = "Click by click" if key["user"] else "Prediction"
        section = Section(heading, "", [self._replay(key, rows)])
        measure, named = self.measure, _QUALITY[self.measure]
        best = max((row[measure] for row in rows if row[measure] is not None), default=None)
        rounds = f"{counted(len(rows), 'round')}, goal {100 * _GOAL:g} % {named}"
        reached = "" if best is None else f"best {named} {100 * best:.1f} %"
        facts = [f"protocol {key['protocol']}", rounds if key["user"] else "", reached]
        subtitle = ", ".join(filter(None, (names.get(key["dataset"], key["dataset"]), key["user"])))
        return render(Page(title, subtitle, facts, [section], back="/"))

    def _replay(self, key: Mapping[str, str], rows: Sequence[dict[str, Any]]) -> Block:
        benchmark = self.run.benchmark
        try:
            scene = self.run.scene(key["dataset"], key["scene"])
            ground_truth = next(t.mask for t in scene.targets if t.id == key["target"])
            if any(row.get("mask") is None for row in rows):
                return Note("Masks were not kept in this run, so it cannot be replayed.", "warning")
            if scene.header.kind != "image" and isinstance(benchmark, ShowsSessions):
                shown: Block = benchmark.viewer(scene, ground_truth, rows)
                return shown
            if not key["user"]:
                return _prediction(scene.pixels, key, rows[0], ground_truth)
            image = Illustration(scene.pixels, close=True)
        except (SegmeterError, StopIteration) as error:
            return Note(f"The image cannot be shown: {error}", "warning")
        frames = [
            Frame(
                Mask.decoded(row["mask"], ground_truth.shape),
                round_from_json(row["prompt"]),
                {"IoU": row["iou"]},
                row["seconds_predict"],
            )
            for row in rows
        ]
        return Replay("session", key["scene"], image, frames, ground_truth, _GOAL)


def _object(scene: str, target: str) -> str:
    """An object by its scene and its name, unless that is meaningless.

    >>> _object("beach", "dog"), _object("124080", "object")
    ('beach, dog', '124080')
    """
    return scene if target in ("", scene, "object") else f"{scene}, {target}"


def _prediction(pixels: Any, key: Mapping[str, str], row: Mapping[str, Any], truth: Mask) -> Block:
    """A mask that was scored without prompts, over its image."""
    mask, name = Mask.decoded(row["mask"], truth.shape), short(key["model"])
    outlines = (
        Outline(truth, "ground_truth", "the ground truth"), Outline(mask, "prediction", name)
    )  # fmt: skip
    shown = Illustration(pixels, name, f"ground truth and {name}", outlines=outlines, close=True)
    return Gallery([shown], "Dashed: the ground truth. Filled: the prediction.")


def _page(asked: Mapping[str, str]) -> int:
    text = asked.get("page", "0")
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _link(asked: Mapping[str, str], number: int) -> str:
    return "?" + urlencode({**asked, "page": number})


class BrowseServer(ThreadingHTTPServer):
    """Shows sessions to one person at this machine: one page at a time, GET only.

    Connections have threads of their own, since browsers open some that they never use.
    """

    daemon_threads = True  # Ctrl-C does not wait for connections
    block_on_close = False

    def __init__(self, sessions: Sessions, port: int = 0) -> None:
        self.pages = {"/": sessions.page, "/session": sessions.session}
        self.answering = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: BrowseServer
    timeout = 30

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):  # another site that points here
            self._send(403, "this page can only be opened on the machine that serves it")
            return
        asked = urlsplit(self.path)
        if asked.path not in self.server.pages:
            self._send(404, "no such page")
            return
        try:
            with self.server.answering:
                page = self.server.pages[asked.path](dict(parse_qsl(asked.query)))
            self._send(200, page, "text/html")
        except SegmeterError as error:
            self._send(404, str(error))

    def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of the terminal."""
