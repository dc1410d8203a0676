"""The contents and headers of the pages, by visitor."""

import gzip
import json
import re
from datetime import UTC, datetime

import pytest

from pywheel import State
from pywheel.jobs.bodies import MAGIC
from pywheel.jobs.commands import Ack, Import, Nack, SetNote
from pywheel.jobs.job import Attempt, Imported, Job, Outcome
from pywheel.server.access import Access
from pywheel.server.page.templating import VERSION

from .site import buttons, dead, found, post, said

NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}</template><hx-partial hx-target="body">'
PAGES = ["/", "/jobs", "/dead", "/workers", "/outlets", "/coming"]


@pytest.fixture
def nasty(queue):
    """A store whose every text wants to be more than text."""
    dead(queue, NASTY, NASTY, key=NASTY, headers={NASTY: NASTY})
    queue.put(NASTY, NASTY.encode(), delay=60)
    queue.put(NASTY, {"a": NASTY}, delay=60)


def every_page(queue):
    ids = [job.id for job in queue.jobs.list()]
    return [*PAGES, *(f"/jobs/{id}" for id in ids)]


def test_every_page_forbids_what_is_not_its_own(queue, client):
    queue.put("mail", {"a": 1}, delay=60)
    for path in [*every_page(queue), "/jobs/999", "/jobs?due_from=x"]:
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["cache-control"], headers["x-frame-options"]) == ("no-store", "DENY")
        assert headers["x-content-type-options"] == "nosniff"


def test_texts_of_jobs_stay_texts_and_no_page_has_script_or_style_within(queue, client, nasty):
    for path in every_page(queue):
        text = client.get(path).text
        for part in ("<script>alert", "<img src=x", "<hx-partial", "</template>"):
            assert part not in text
        assert "{{ 7*7 }}" in text or "7*7" not in text
        text = re.sub("&lt;.*?&gt;", "", text)
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text), path
        assert all(" src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert "&lt;script&gt;alert(1)" in client.get("/jobs", params={"topic": NASTY}).text


def test_the_page_works_under_any_path(queue, sites):
    queue.put("mail", b"", delay=60)
    site = sites(queue, prefix="/ops/pywheel")
    with site.client() as client:
        for path in every_page(queue):
            text = client.get(path).text
            links = re.findall(r'(?:href|src|action|hx-get|hx-sse:connect)="([^"?][^"]*)"', text)
            assert links
            assert [link for link in links if not link.startswith(("/ops/pywheel/", "#"))] == []
        assert said(client, post(client, "/topics", topic="mail", action="pause")).startswith("mail is paused")
        stylesheet = re.search(r'href="/ops/pywheel(/static/[^"]+\.css)"', client.get("/").text)[1]
        assert client.get(stylesheet).status_code == 200


def test_own_files_are_kept_by_their_content_and_sent_compressed(client):
    def get(name, **headers):
        return client.get(f"/static/{name}", headers=headers)

    answer = get(f"{VERSION}/scripts.js")
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    assert get(f"{VERSION}/scripts.js", **{"accept-encoding": "identity"}).text == answer.text
    assert get("000000000000/scripts.js").headers["cache-control"] == "no-store"
    assert {get(f"{VERSION}/{name}").status_code for name in ("htmx.LICENSE", "..%2Froutes.py")} == {404}


def test_the_first_view_is_less_than_60_kilobytes_on_the_wire(queue, client):
    def sent(path):
        with client.stream("GET", path) as answer:
            return b"".join(answer.iter_raw())

    queue.put_many([queue.job(f"topic{n % 20}", b"", delay=n % 4000) for n in range(5_000)])
    page = sent("/")
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', gzip.decompress(page).decode())
    assert len(page) + sum(len(sent(path)) for path in files) < 60_000


# ---- the search ------------------------------------------------------------------------------------------------------


def test_a_search_stands_in_the_address(queue, client):
    first = queue.put("mail", b"", key="a", delay=60)
    second = queue.put("mail", b"", key="b", delay=7200)
    queue.put("shop", b"", delay=60)
    gone = dead(queue, "shop", "it timed out & stopped")
    around = datetime.fromtimestamp(queue.get(first).due / 1000, UTC)
    for query, expected in (
        ({"topic": "mail"}, [first, second]),
        ({"topic": "mail", "newest": "1"}, [second, first]),
        ({"key": "b", "topic": "mail"}, [second]),
        ({"state": "dead"}, [gone]),
        ({"error": "out & stop"}, [gone]),
        ({"topic": "mail", "due_until": around.isoformat(timespec="milliseconds")}, [first]),
        ({"topic": "mail", "due_from": around.replace(microsecond=0, tzinfo=None).isoformat()}, [first, second]),
    ):
        assert found(client.get("/jobs", params=query).text) == expected, query
    for id, path in ((f"+{first}", f"/jobs/{first}"), ("//evil.example", "/jobs/%2F%2Fevil.example")):
        assert client.get(f"/jobs?id={id}").headers["location"] == path


def test_jobs_are_searched_by_body_header_worker_and_priority_and_it_is_said_how_many_were_looked_at(queue, client):
    first = queue.put("mail", "a needle", headers={"tenant": "a=b"}, delay=60)
    second = queue.put("mail", "a needle", priority=5, delay=60)
    others = [queue.put("mail", "x" * 200, delay=60) for _ in range(3)]
    for query, ids in {
        "text=needle": [first, second], "header=tenant": [first], "header=tenant%3Da%3Db": [first],
        "priority=5": [second], "priority=0&text=x": others, "worker=app": [], "topic=mail&text=needle&newest=1":
        [second, first],
    }.items():  # fmt: skip
        text = client.get(f"/jobs?{query}").text
        assert found(text) == ids, query
        assert "5 jobs were looked at one by one" in text
    assert "looked at" not in client.get("/jobs?topic=mail").text
    assert f'value="{first}"' in client.get("/jobs?text=needle").text
    lines = client.get("/jobs/export?text=needle").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(first), str(second)]
    told = post(client, "/jobs", text="needle", action="cancel", scope="all").text
    assert "Cancel 2 jobs?" in told
    assert 'name="text" value="needle"' in told
    for wrong in ("priority=high", "priority=10"):
        assert client.get(f"/jobs?{wrong}").status_code == 400


@pytest.mark.parametrize("query", ["state=asleep", "due_from=soon", "after=nonsense", "due_until=2026-13-01T00:00"])
def test_a_search_that_makes_no_sense_says_why(client, query):
    answer = client.get(f"/jobs?{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


# ---- a job -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        (b'{"a": [1, "\xc3\xa4"]}', "JSON", "&#34;a&#34;: [\n    1,\n    &#34;ä&#34;\n  ]"),
        (b"<script>plain words", "text", ">&lt;script&gt;plain words<"),
        (bytes(range(20)), "bytes", "0f\n10 11 12 13<"),
        (b"", "empty", "Empty."),
        (MAGIC + b"\x01\x01k" + bytes(40), "encrypted", "Encrypted: this server has no key to it."),
    ],
)
def test_a_body_is_shown_as_what_it_is_and_kept_as_a_file(queue, client, body, kind, shown):
    id = queue.put("mail", body, delay=60)
    text = client.get(f"/jobs/{id}").text
    assert f"{kind}, " in text
    assert shown in text
    download = client.get(f"/jobs/{id}/body")
    if kind == "encrypted":
        assert download.status_code == 503
    else:
        assert download.content == body
        assert download.headers["content-disposition"].startswith("attachment")  # the browser shows none
        assert download.headers["content-type"] == "application/octet-stream"
        assert download.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (b'{"a":1}', "&#34;a&#34;: 1"),
        (b"<b>text", "&lt;b&gt;text"),
        (b"\xff\x01", "ff 01"),
        (b"", "empty, 0 Bytes"),
        (MAGIC + b"?", "The result is encrypted: this server has no key to it."),
    ],
)
def test_a_result_is_shown_with_the_attempt_that_it_is_of(queue, client, result, shown):
    id = queue.put("mail", b"")
    [job] = queue.reserve("mail")
    queue.store.apply([Ack(id, job.claims, result)])
    text = client.get(f"/jobs/{id}").text
    assert 'aria-label="Result"' in text or result.startswith(MAGIC)
    assert shown in text


HARD = [b"[" * 950 + b"]" * 950, b"[" * 5_000 + b"]" * 5_000, "ä".encode() * 60_000, b"\xff" * 9]


@pytest.mark.parametrize("body", [b"[" * 60_000, b"1" * 5000, b"NaN", b'"\\ud800"', *HARD])
def test_bodies_that_are_hard_to_show_are_shown(queue, client, body):
    id = queue.put("mail", body, delay=60)
    assert client.get(f"/jobs/{id}").status_code == 200


def test_a_large_body_is_cut_and_said_to_be(queue, client):
    deep = b"[" * 400 + b",".join([b"1"] * 30_000) + b"]" * 400  # not written out with its margins
    for body, most, told in ((deep, 100_000, ""), (b'["%s"]' % (b"x" * 900_000), 200_000, "download all of it")):
        text = client.get(f"/jobs/{queue.put('mail', body, delay=60)}").text
        assert (len(text) < most, told in text) == (True, True)


def test_an_outlet_shows_what_it_notes_of_itself(queue, client):
    noted = {"kind": "webhook", "target": "https://hooks.example/", "at": 5, "status": "410", "error": "gone"}
    noted["disabled"] = 7
    queue.store.apply([SetNote("outlet:shop.notify", json.dumps(noted).encode()), SetNote("outlet:odd", b"\xff")])
    text = client.get("/outlets").text
    for part in ("shop.notify", "https://hooks.example/", "410", "gone", "disabled", "odd"):
        assert part in text


def test_a_lost_attempt_says_why_it_has_no_error(queue, client):
    job = Job(1, "t", b"", due=1, created=1, ttr=1, max_attempts=1, claims=1, attempt=1, state=State.DEAD)
    lost = Attempt(1, 1, 1, 2, Outcome.LOST, "w", None)
    [[id]] = queue.store.apply([Import((Imported(job, (lost,)),))])
    assert "its lease ended; its worker sent nothing" in client.get(f"/jobs/{id}").text


def test_the_timeline_has_each_attempt(queue, client):
    ids = [queue.put("mail", b"") for _ in range(2)]
    for n in range(3):
        queue.store.apply([Nack(job.id, job.claims, 0, f"error {n}") for job in queue.reserve("mail", 2)])
    done, dead = queue.reserve("mail", 2)
    queue.ack(done)
    queue.bury(dead)
    for id, kinds in zip(ids, ({"failed": 3, "done": 1}, {"failed": 4}), strict=True):
        text = client.get(f"/jobs/{id}").text
        found = re.findall(r'<rect class="(\w+)"', text)
        assert {kind: found.count(kind) for kind in found if kind != "waited"} == kinds
        assert [f"error {n}" in text for n in range(3)] == [True] * 3


@pytest.mark.parametrize(
    "path",
    [*(f"/jobs/{id}" for id in ("999", "x", "1.5", 10**30)), "/bulk/none", "/live?view=other", "/live?view=topic"],
)
def test_what_is_not_there_is_said_and_who_is_in_keeps_the_way_on(client, path):
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert 'href="/workers"' in answer.text


# ---- signing in ------------------------------------------------------------------------------------------------------


def test_who_is_not_in_is_sent_to_the_form_and_back(guarded):
    with guarded.client() as client:
        answer = client.get("/jobs?topic=shop.a&state=dead")
        assert answer.headers["location"] == "/sign-in?next=/jobs%3Ftopic%3Dshop.a%26state%3Ddead"
        form = client.get(answer.headers["location"]).text
        assert 'value="/jobs?topic=shop.a&amp;state=dead"' in form
        answer = post(client, "/sign-in", token=" viewer\n", next="/jobs?topic=shop.a&state=dead")
        assert answer.headers["location"] == "/jobs?topic=shop.a&state=dead"
        cookie = next(c for c in answer.headers.get_list("set-cookie") if c.startswith("pywheel_token"))
        assert {"HttpOnly", "SameSite=strict"} <= {*cookie.split("; ")}
        client.cookies.update(answer.cookies)
        assert client.get("/jobs").status_code == 200


@pytest.mark.parametrize(("token", "status"), [("wrong", 401), ("", 401), ("a b;c", 401), ("ü", 401), ("worker", 403)])
def test_a_token_that_will_not_do_says_why(guarded, token, status):
    with guarded.client() as client:
        answer = post(client, "/sign-in", token=token, next="/")
        assert answer.status_code == status
        assert 'role="alert"' in answer.text
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil", "/\t/evil"]
)
def test_signing_in_leads_nowhere_else(guarded, target):
    with guarded.client() as client:
        answer = post(client, "/sign-in", token="viewer", next=target)
        assert answer.headers["location"] == "/"


def test_wrong_tokens_are_limited_and_behind_a_proxy_those_of_one_keep_nobody_else_out(guarded):
    guarded.context.access = Access("tokens", guarded.tokens, ["127.0.0.1"])
    with guarded.client() as client:
        client.headers["x-forwarded-for"] = "192.0.2.6"
        answers = [post(client, "/sign-in", token=f"wrong{n}", next="/") for n in range(30)]
        assert "too many" in answers[-1].text
        client.headers["x-forwarded-for"] = "192.0.2.7"
        assert post(client, "/sign-in", token="viewer", next="/").status_code == 303


@pytest.mark.parametrize(("scheme", "prefix"), [("http", ""), ("https", "__Host-")])
def test_a_token_that_came_by_tls_is_kept_for_tls_alone_and_no_other_host_can_set_it(guarded, scheme, prefix):
    """Also where a proxy ends it."""
    with guarded.client(origin=f"{scheme}://127.0.0.1:{guarded.port}") as client:
        answer = post(client, "/sign-in", token="viewer", next="/")
        assert answer.status_code == 303
        for cookie in answer.headers.get_list("set-cookie"):
            assert ("Secure" in cookie) is (scheme == "https")
        [cookie] = [line for line in answer.headers.get_list("set-cookie") if "viewer" in line]
        assert cookie.startswith(f"{prefix}pywheel_token=")
        assert "Path=/;" in cookie
        assert client.get("/", headers={"cookie": f"{prefix}pywheel_token=viewer"}).status_code == 200
        left = post(client, "/sign-out").headers.get_list("set-cookie")
    assert any(line.startswith(f'{prefix}pywheel_token=""') for line in left)


@pytest.mark.parametrize(
    ("cookies", "role"),
    [
        ("pywheel_token=viewer; pywheel_token=admin", None),
        ("pywheel_token=admin; pywheel_token=viewer", None),
        ("__Host-pywheel_token=viewer; pywheel_token=admin", "viewer"),
        ("pywheel_token=admin; __Host-pywheel_token=viewer", "viewer"),
    ],
)
def test_of_two_tokens_in_cookies_none_is_taken_unless_only_this_host_can_have_set_it(guarded, cookies, role):
    with guarded.client() as client:
        answer = client.get("/", headers={"cookie": cookies})
    assert answer.status_code == (303 if role is None else 200)
    assert role is None or f">{role}<" in answer.text


def test_without_anything_every_page_says_so(client):
    for path in PAGES:
        assert client.get(path).status_code == 200, path
    assert "No topic yet" in client.get("/").text
    assert buttons(client.get("/jobs").text) == []


def test_a_store_of_many_topics_shows_those_that_need_somebody(queue, client):
    queue.put_many([queue.job(f"topic{n:03}", b"", delay=60) for n in range(300)])
    dead(queue, "zz.sick", "ill")
    text = client.get("/").text
    assert "zz.sick" in text
    assert text.count('<th scope="row">') == 100
