"""The open network: proxies, verbs, hosts, bodies that no page would send, and limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from segmeter.study.guards import Limiter
from segmeter.study.running import RunningStudy
from segmeter.study.server import settings, study_app

PASSWORD = "password"


@pytest.fixture
def study(begin: Callable[..., RunningStudy]) -> RunningStudy:
    return begin()


def join_form(http: Any) -> dict[str, str]:
    page = http.get("/join/open").text
    return {"form": page.split('name="form" value="')[1].split('"')[0], "agreed": "yes"}


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
def test_cookies_are_for_https_only_where_there_is_https(
    study: RunningStudy, scheme: str, secure: bool
) -> None:
    http = TestClient(study_app(study, PASSWORD, limited=False), base_url=f"{scheme}://x.example")
    fields = join_form(http)
    session = http.post("/join/open", data=fields, follow_redirects=False).headers["set-cookie"]
    passed = http.post("/conduct/login", data={"password": PASSWORD}, follow_redirects=False)
    conductor = passed.headers["set-cookie"]
    for cookie in (session, conductor):
        assert ("Secure" in cookie) == secure
        assert "HttpOnly" in cookie
    assert "SameSite=strict" in conductor
    assert "Path=/conduct" in conductor


def behind(study: RunningStudy, peer: str) -> TestClient:
    """The server as `--behind 10.0.0.1` runs it, spoken to by this machine."""
    app = study_app(study, PASSWORD)
    app.state.site.limits.newcomers = Limiter(20.0, 150)
    config = settings(app, "127.0.0.1", 8000, behind="10.0.0.1")
    config.load()
    return TestClient(config.loaded_app, client=(peer, 5000))


@pytest.mark.usefixtures("still")
def test_people_behind_a_trusted_proxy_are_distinguished(study: RunningStudy) -> None:
    http = behind(study, "10.0.0.1")
    for person in ("1.1.1.1", "2.2.2.2"):
        headers = {"x-forwarded-for": person, "x-forwarded-proto": "https"}
        answers = [http.get("/withdraw", headers=headers).status_code for _ in range(151)]
        assert answers == [200] * 150 + [429]
    fresh = {"x-forwarded-for": "3.3.3.3", "x-forwarded-proto": "https"}
    page = http.get("/join/open", headers=fresh).text
    form = page.split('name="form" value="')[1].split('"')[0]
    fields = {"form": form, "agreed": "yes"}
    joined = http.post("/join/open", data=fields, headers=fresh, follow_redirects=False)
    assert "Secure" in joined.headers["set-cookie"]


@pytest.mark.usefixtures("still")
def test_only_trusted_proxies_are_believed(study: RunningStudy) -> None:
    http = behind(study, "6.6.6.6")
    answers = [
        http.get("/withdraw", headers={"x-forwarded-for": f"1.1.1.{k}"}).status_code
        for k in range(151)
    ]
    assert answers == [200] * 150 + [429]


@pytest.mark.usefixtures("still")
def test_made_up_cookies_do_not_lift_the_limit_of_an_address(
    study: RunningStudy,
) -> None:
    app = study_app(study, PASSWORD)
    app.state.site.limits.addresses = Limiter(100.0, 200)
    http = TestClient(app)
    answers = [
        http.get("/static/study.css", headers={"cookie": f"segmeter_session=x{k}"}).status_code
        for k in range(210)
    ]
    assert answers == [200] * 200 + [429] * 10


@pytest.mark.usefixtures("still")
def test_a_class_behind_one_address_may_join_at_once(study: RunningStudy) -> None:
    app = study_app(study, PASSWORD)
    for _ in range(12):
        http = TestClient(app)
        joined = http.post("/join/open", data=join_form(http), follow_redirects=False)
        assert joined.status_code == 303
    tries = [http.post("/join/wrong", data={"form": "x"}).status_code for _ in range(12)]
    assert tries == [403] * 10 + [429] * 2


@pytest.mark.parametrize("host", ["evil.example", 'a"><script>alert(1)</script>', "[::1]:80"])
def test_a_false_host_header_redirects_no_one(study: RunningStudy, visit: Any, host: str) -> None:
    person = visit(study).join()
    page = person.http.get("/work", headers={"host": host})
    assert "evil.example" not in page.text
    assert "<script>alert" not in page.text
    moved = person.http.get("/", headers={"host": host}, follow_redirects=False)
    assert moved.headers["location"].startswith("/join/open")
    # What is sent from a page of another host is not ours.
    sent = {"origin": "http://testserver", "host": "evil.example"}
    answer = person.http.post("/api/batch", headers={"x-segmeter-token": person.token, **sent})
    assert answer.status_code == 403


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_verbs_do_nothing(study: RunningStudy, visit: Any, verb: str) -> None:
    person = visit(study).join()
    for path in ("/api/batch", "/join/open", "/conduct/state", "/withdraw", "/static/study.css"):
        answer = person.http.request(verb, path, headers={"x-segmeter-token": person.token})
        assert answer.status_code == 405, (verb, path)
        assert "access-control-allow-origin" not in answer.headers


def test_there_are_no_web_sockets(study: RunningStudy, visit: Any) -> None:
    with pytest.raises(WebSocketDisconnect), visit(study).http.websocket_connect("/work"):
        pass


def test_bodies_that_no_page_would_send_are_refused(
    study: RunningStudy, visit: Any, a_click: Any
) -> None:
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    headers = {"x-segmeter-token": person.token, "content-type": "application/json"}
    good = json.dumps(a_click(trial, x=0.5, nonce="nnnnnnnn"))
    bodies = [
        good.replace("0.5", "9" * 5000, 1),  # more digits than Python reads
        good.replace("0.5", "1e999", 1),
        good.replace("0.5", "9" * 400, 1),
        good.replace("nnnnnnnn", "\\ud800" * 8, 1),  # half of a letter
        good.replace("nnnnnnnn", "n\\u0000nnnnnnn", 1),
        good.replace("nnnnnnnn", "ｎｎｎｎｎｎｎｎ", 1),  # letters that only look alike
        "[" * 20000,
        '{"a":' * 5000,
    ]
    for body in bodies:
        answer = person.http.post(
            f"/api/trials/{trial['id']}", content=body.encode(), headers=headers
        )
        assert answer.status_code in (400, 422), body[:60]
    raw = b'{"nonce": "\xff\xfe"}'
    path = f"/api/trials/{trial['id']}"
    assert person.http.post(path, content=raw, headers=headers).status_code in (400, 422)


def test_invalid_secrets_are_refused_and_break_nothing(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    headers = {b"x-segmeter-token": "ü".encode()}
    assert person.http.post("/api/batch", headers=headers).status_code == 403
    http = visit(study).http
    assert http.post("/conduct/login", data={"password": "pässwörd"}).status_code == 403
    assert http.post("/conduct/login", data={"password": PASSWORD}).status_code == 200
    assert http.post("/conduct/state", data={"form": "ü", "state": "closed"}).status_code == 403
    fresh = visit(study).http
    fresh.cookies.set("segmeter_conductor", "9" * 5000 + ".x")
    assert fresh.get("/conduct/export").status_code == 403
    lengths = {"content-length": "9" * 5000}
    assert fresh.post("/withdraw", headers=lengths).status_code == 413
    assert study.state() == "open"


def test_after_withdrawal_nothing_of_a_person_works_any_more(
    begin: Callable[..., RunningStudy], visit: Any, a_click: Any
) -> None:
    study = begin()
    (token,) = study.invite(1)
    person = visit(study).join(token)
    (trial, *_) = person.batch()["trials"]
    body = a_click(trial)
    assert person.post(f"/api/trials/{trial['id']}", body).status_code == 200
    assert study.withdraw(person.person())
    assert person.post(f"/api/trials/{trial['id']}", body).status_code == 401
    assert person.post("/api/batch").status_code == 401
    image = person.http.get(f"/images/{trial['id']}/image", follow_redirects=False)
    assert image.status_code == 401
    assert visit(study).http.get(f"/join/{token}").status_code == 403
