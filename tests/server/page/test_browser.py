"""The page in a real Chromium: each action, live, by keyboard, on a phone, without a script."""

import contextlib
import re

import pytest

from pywheel import JobQueue, LimitOverride, StoreAway
from pywheel.jobs.commands import Announce, Nack
from pywheel.jobs.job import State
from pywheel.server import ProxySignIn
from tests.stores.servers import started

from . import browser as chromium
from .site import dead
from .test_looks import NASTY

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def launched():
    """A Chromium for all tests of a process."""
    yield from started(chromium.launched)


@pytest.fixture(scope="session")
def axe():
    yield from started(chromium.axe)


@pytest.fixture
def browser(launched):
    opened = chromium.Browser(launched)
    yield opened
    assert opened.close() == []


@pytest.fixture
def look():
    """The scheme and the size of a person's screen."""
    return "light", chromium.WIDE


@pytest.fixture
def person(browser, site, look):
    """Somebody on the open site."""
    return browser.person(site, *look)


@pytest.fixture
def stranger(browser, guarded, look):
    """Somebody on the site with tokens."""
    return browser.person(guarded, *look)


@pytest.fixture
def shop(queue):
    """Some of everything."""
    queue.put_many([queue.job("order.expire", {"order": n}, delay=n, key=f"order-{n}") for n in range(80)])
    queue.put("mail.send", {"to": "a@example.net"}, delay=7200)
    for n in range(3):
        dead(queue, error=f"TimeoutError: no answer within {n} s")
    dead(queue, error="ConnectionError: refused")
    queue.put("search.index", b"\x00\x01")
    queue.topics.pause("search.index")
    queue.put("invoice.pdf", b"")
    queue.ack(queue.reserve("invoice.pdf")[0])
    for name in ("nightly", "weekly"):
        queue.schedules.set(name, "report", cron="0 3 * * *", tz="Europe/Berlin")
    queue.schedules.pause("weekly")
    return queue


def row(page, topic):
    return page.locator("#topics tr", has=page.get_by_role("link", name=topic, exact=True))


def is_live(page):
    page.locator("#stream.live").wait_for()


def opened(page, path="/"):
    """Open a page that is live."""
    page.goto(path)
    is_live(page)


def told_by_the_stream(page):
    """Return once the stream has told the page something more."""
    before = page.evaluate("document.querySelector('[data-clock]').textContent")
    page.wait_for_function("before => document.querySelector('[data-clock]').textContent !== before", arg=before)


# ---- everybody can read it -------------------------------------------------------------------------------------------


# A phone shows less than a screen, in the same colours.
LOOKS = pytest.mark.parametrize(
    "look",
    [("light", chromium.PHONE), ("light", chromium.WIDE), ("dark", chromium.WIDE)],
    ids=["light phone", "light screen", "dark screen"],
)


def looks_well(page, axe):
    assert chromium.findings(page, axe) == [], page.url
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], page.url


@LOOKS
def test_axe_finds_nothing_on_any_page_and_each_fits_its_screen(shop, person, axe):
    ids = {job.state: job.id for job in shop.jobs.list()}
    for path in [
        "/", "/jobs", "/jobs?topic=shop.notify", "/jobs?topic=search.index", "/jobs?state=dead&error=Timeout",
        "/jobs?due_from=x", "/jobs?topic=none", "/jobs?topic=shop.notify&state=dead&like=TimeoutError", "/dead",
        "/schedules", "/workers", "/outlets", "/coming", "/charts", "/schedules/form", "/schedules/form?name=weekly",
        "/put", *(f"/jobs/{id}" for id in ids.values()), "/jobs/99999",
    ]:  # fmt: skip
        person.goto(path)
        looks_well(person, axe)
    person.goto("/jobs?topic=order.expire")
    person.select_option("#scope", "all")
    person.get_by_role("button", name="Delete…").click()
    looks_well(person, axe)
    person.get_by_role("button", name="Delete 80").click()
    person.get_by_text("Done.").wait_for()
    looks_well(person, axe)
    person.get_by_role("link", name="Log", exact=True).click()
    person.get_by_role("row").nth(1).wait_for()
    looks_well(person, axe)


@pytest.mark.parametrize("look", [("light", chromium.PHONE)])
def test_dead_jobs_of_a_topic_with_a_long_name_fit_a_phone(queue, person, axe):
    dead(queue, "topic" * 20, "error" * 60)
    person.goto("/dead")
    looks_well(person, axe)


@LOOKS
def test_axe_finds_nothing_on_the_form_to_sign_in(stranger, axe):
    stranger.goto("/jobs")
    looks_well(stranger, axe)
    stranger.get_by_label("Token").fill("wrong")
    stranger.keyboard.press("Enter")
    stranger.get_by_role("alert").wait_for()
    looks_well(stranger, axe)


def test_nothing_that_a_job_says_is_run(queue, browser, person):
    id = queue.put(NASTY, NASTY.encode(), key=NASTY[:60], headers={NASTY: NASTY})
    [job] = queue.reserve(NASTY)
    queue.store.apply([Nack(job.id, job.claims, None, f"{NASTY}\n{NASTY}")])
    queue.put(NASTY, {NASTY: NASTY}, delay=60)
    person.on("dialog", lambda dialog: browser.errors.append(f"a dialog: {dialog.message}"))
    for path in ("/", "/jobs", "/dead", f"/jobs/{id}", f"/jobs/{id + 1}", "/coming"):
        person.goto(path)
        assert person.locator("img").count() == 0
        assert person.locator("script:not([src])").count() == 0
    opened(person)
    told_by_the_stream(person)
    assert person.locator("img").count() == 0
    person.get_by_role("link", name=NASTY).first.click()
    assert NASTY in person.locator("h1").inner_text()


# ---- it is live ------------------------------------------------------------------------------------------------------


def test_what_happens_is_seen_without_doing_anything(queue, person):
    queue.put("mail", b"", delay=600)
    opened(person)
    queue.put_many([queue.job("shop", b"", delay=30) for _ in range(1234)])
    row(person, "shop").get_by_text("1\u202f234").wait_for()
    person.locator('.plot[data-counts*="1234"], .plot[data-counts*="1000"]').first.wait_for()


def test_an_open_page_finds_its_server_again(queue, person, site):
    queue.put("mail", b"", delay=600)
    opened(person)
    site.stop()
    person.locator("#stream.away").wait_for()
    queue.put("shop.new", b"", delay=600)
    site.start()
    row(person, "shop.new").wait_for()
    is_live(person)


def test_a_store_that_does_not_answer_is_said_on_open_pages(browser, sites):
    queue = JobQueue("memory:")
    queue.put("mail", b"", delay=600)
    site = sites(queue)
    person = browser.person(site)
    opened(person)
    queue.close()
    person.get_by_text("The store does not answer").wait_for()
    assert row(person, "mail").count() == 1


def test_two_people_see_what_the_other_does(shop, browser, site):
    one, other = browser.person(site), browser.person(site)
    for page in (one, other):
        opened(page)
    row(one, "mail.send").get_by_role("button", name="Pause").click()
    row(other, "mail.send").get_by_text("paused").wait_for()
    id = shop.jobs.list(topic="mail.send")[0].id
    for page in (one, other):
        page.goto(f"/jobs/{id}")
    one.get_by_role("button", name="Cancel").click()
    other.locator("#job-state", has_text="cancelled").wait_for()


# ---- actions ---------------------------------------------------------------------------------------------------------


def test_a_job_is_due_now_by_its_button_and_deleted_after_a_yes(queue, person):
    id = queue.put("mail", {"a": 1}, delay=60)
    person.goto(f"/jobs/{id}")
    person.get_by_label("or at (UTC)").fill("2031-02-03T04:05")
    person.get_by_role("button", name="Reschedule").click()
    person.get_by_text("2031-02-03 04:05:00.000 UTC").wait_for()
    person.get_by_role("button", name="Due now").click()
    person.get_by_text(f"job {id} rescheduled").wait_for()
    assert queue.get(id).due <= queue.store.clock.wall()
    person.once("dialog", lambda dialog: dialog.dismiss())
    person.get_by_role("button", name="Delete").click()
    assert queue.get(id).state is State.DELAYED
    person.once("dialog", lambda dialog: dialog.accept())
    person.get_by_role("button", name="Delete").click()
    person.get_by_text(f"job {id} deleted").wait_for()
    assert queue.jobs.list() == []


def test_all_of_a_page_are_selected_at_once(shop, person):
    person.goto("/jobs?topic=order.expire&state=delayed")
    person.get_by_label("Select all jobs of this page").check()
    person.get_by_role("button", name="Delete…").click()
    person.get_by_role("button", name="Delete 50").click()
    person.get_by_text("50 of 50 jobs deleted").wait_for()


def test_a_search_goes_on_as_one_types_and_stands_in_the_address(shop, person):
    person.goto("/jobs")
    person.get_by_label("Topic").press_sequentially("shop.notify")
    person.wait_for_url("**/jobs?topic=shop.notify")
    assert person.locator("#found tbody tr").count() == 4
    person.get_by_label("Error contains").fill("Timeout")
    person.wait_for_url("**/jobs?topic=shop.notify&error=Timeout")
    person.wait_for_function("document.querySelectorAll('#found tbody tr').length === 3")
    person.reload()
    assert person.get_by_label("Error contains").input_value() == "Timeout"
    person.go_back()
    person.wait_for_url("**/jobs?topic=shop.notify")


def test_a_bar_leads_to_its_jobs(queue, person):
    queue.put_many([queue.job("mail", b"", delay=1800) for _ in range(7)])
    opened(person)
    box = person.locator(".plot").nth(1).bounding_box()
    person.mouse.move(box["x"] + box["width"] * 30.5 / 61, box["y"] + 50)
    text = person.locator(".tip").inner_text()
    place = 30.5 if "7 jobs" in text else 29.5
    person.mouse.move(box["x"] + box["width"] * place / 61, box["y"] + 50)
    assert "7 jobs" in person.locator(".tip").inner_text()
    told_by_the_stream(person)
    assert "7 jobs" in person.locator(".tip").inner_text()  # what is live does not take it away
    person.mouse.click(box["x"] + box["width"] * place / 61, box["y"] + 50)
    person.wait_for_url("**/jobs?state=delayed&due_from=*")
    assert person.locator("#found tbody tr").count() == 7


def test_a_topic_of_100_000_jobs_can_be_read_and_changed(person, queue):
    for _ in range(10):
        queue.put_many([queue.job("mail", b"{}", delay=3600 + n % 600) for n in range(10_000)])
    person.goto("/jobs?topic=mail")
    assert person.locator("#found tbody tr").count() == 50
    person.get_by_text("100\u202f000").first.wait_for()
    person.get_by_role("link", name="Next page").click()
    assert person.locator("#found tbody tr").count() == 50
    person.goto("/jobs?topic=mail&newest=1")
    assert person.locator("#found tbody tr").first.inner_text().startswith("\t100000")
    person.select_option("#scope", "all")
    person.get_by_role("button", name="Cancel…").click()
    person.get_by_role("heading", name="Cancel 100\u202f000 jobs?").wait_for()
    person.get_by_role("button", name="Cancel 100\u202f000").click()
    person.get_by_text("Done.").wait_for()
    assert queue.topics.counts()["mail"].cancelled == 100_000


# ---- people ----------------------------------------------------------------------------------------------------------


def test_a_token_that_ends_leads_an_open_page_to_the_form(shop, browser, guarded, monkeypatch):
    monkeypatch.setattr("pywheel.server.access._FRESH", 0.0)
    person = browser.person(guarded, token="viewer")
    opened(person)
    guarded.tokens.pop("viewer")
    person.wait_for_url("**/sign-in?next=/")


def test_without_a_script_all_can_be_read_and_done(shop, browser, guarded):
    person = browser.person(guarded, script=False)

    def press(name, told):
        person.get_by_role("button", name=name).first.click()
        person.get_by_text(told).wait_for()

    person.goto("/")
    person.get_by_label("Token").fill("admin")
    press("Sign in", "mail.send")
    person.goto("/jobs?topic=order.expire")
    person.locator("#bulk tbody input[type=checkbox]").first.check()
    press("Cancel…", "Cancel 1 job?")
    press("Cancel 1", "1 of 1 jobs cancelled")
    person.goto("/dead")
    press(re.compile("Retry 3"), "3 retried")
    person.get_by_role("link", name="Jobs", exact=True).click()
    person.get_by_label("Topic").fill("mail.send")
    person.get_by_role("button", name="Search").click()
    assert person.locator("#found tbody tr").count() == 1


def test_the_keyboard_is_enough(shop, person):
    person.goto("/")
    person.keyboard.press("Tab")
    assert person.evaluate("document.activeElement.className") == "skip"
    person.keyboard.press("Enter")
    assert person.evaluate("document.activeElement.id") == "main"
    person.keyboard.press("?")
    person.get_by_role("dialog").wait_for()
    person.keyboard.press("Escape")
    for key, path in (("s", "schedules"), ("d", "dead")):
        person.keyboard.press("g")
        person.keyboard.press(key)
        person.wait_for_url(f"**/{path}")
    person.keyboard.press("/")
    person.wait_for_url("**/jobs#topic")
    person.wait_for_function("document.activeElement.id === 'topic'")
    person.keyboard.type("g d")
    assert person.get_by_label("Topic").input_value() == "g d"


def test_times_are_said_in_the_local_zone_too(shop, person):
    person.goto("/jobs?topic=mail.send")
    time = person.locator("#found time").first
    time.hover()
    person.wait_for_function("document.querySelector('#found time').title.includes('CE')")
    assert "UTC" in time.get_attribute("title")
    assert "Europe/Zurich" in person.locator("#zone").inner_text()


def test_light_and_dark_follow_the_system(shop, browser, site):
    grounds = {}
    for scheme in ("light", "dark"):
        person = browser.person(site, scheme=scheme)
        person.goto("/")
        grounds[scheme] = person.evaluate("getComputedStyle(document.body).backgroundColor")
    assert grounds["light"] != grounds["dark"]


def test_what_is_live_does_not_disturb_who_types_or_has_the_focus(queue, person):
    queue.put("mail", b"", delay=600)
    opened(person)
    row(person, "mail").get_by_role("button", name="Pause").focus()
    queue.put("mail", b"", delay=600)
    told_by_the_stream(person)
    row(person, "mail").get_by_text("2", exact=True).wait_for()
    assert person.evaluate("document.activeElement.getAttribute('aria-label')") == "Pause mail"


def test_the_focus_stays_with_its_topic_when_another_one_comes_above_it(queue, person):
    queue.put("mail", b"", delay=600)
    queue.put("zeta", b"", delay=600)
    opened(person)
    row(person, "zeta").get_by_role("button", name="Pause").focus()
    queue.put("alpha", b"", delay=600)
    row(person, "alpha").wait_for()
    assert person.evaluate("document.activeElement.getAttribute('aria-label')") == "Pause zeta"
    person.keyboard.press("Enter")
    person.get_by_text("zeta is paused").wait_for()
    assert [topic.name for topic in queue.topics.list() if topic.paused] == ["zeta"]


def test_a_button_that_is_pressed_while_its_row_moves_does_nothing_to_another_topic(queue, person):
    queue.put("mail", b"", delay=600)
    queue.put("zeta", b"", delay=600)
    opened(person)
    row(person, "zeta").get_by_role("button", name="Pause").hover()
    person.mouse.down()
    queue.put("alpha", b"", delay=600)
    row(person, "alpha").wait_for()
    person.mouse.up()
    person.goto("/jobs")  # after whatever the button did
    assert {topic.name for topic in queue.topics.list() if topic.paused} <= {"zeta"}


def test_the_focus_stays_with_its_worker_when_one_above_it_ends(queue, person):
    queue.put("mail", b"", delay=600)
    with contextlib.ExitStack() as stack:
        for host in ("a:1", "b:1", "c:1"):
            ear = stack.enter_context(contextlib.closing(queue.store.notifier(host)))
            queue.store.apply([Announce(ear.worker, ("mail",))])
        opened(person, "/workers")
        buttons = person.get_by_role("button", name="Quiet")
        buttons.nth(1).focus()
        mine = person.evaluate("document.activeElement.form.elements.worker.value")
        first = person.locator("input[name=worker]").first.input_value()
        queue.store.apply([Announce(first, ())])
        person.locator(f'input[value="{first}"]').wait_for(state="detached")
        assert person.evaluate("document.activeElement.form?.elements.worker.value") == mine


def test_what_a_worker_begins_and_ends_is_seen_without_doing_anything(queue, person, axe):
    person.goto("/workers")
    person.get_by_text("Nothing runs.").wait_for()
    id = queue.put("mail", b"")
    [job] = queue.reserve("mail")
    person.locator("#running").get_by_role("link", name=str(id)).wait_for()
    looks_well(person, axe)
    queue.ack(job)
    person.get_by_text("Nothing runs.").wait_for()


@LOOKS
def test_a_topic_is_limited_by_a_form_on_its_page(queue, person, axe):
    queue.put("mail", b"", delay=600)
    person.goto("/jobs?topic=mail")
    person.get_by_text("Limits: as its code says").click()
    person.get_by_label("At once, at most").fill("1")
    person.get_by_label("in each group, up to").fill(":")
    person.get_by_label("Begin, at most").fill("100/m")
    looks_well(person, axe)
    person.get_by_role("button", name="Set limits").click()
    person.get_by_text("mail is limited").wait_for()
    assert queue.topics.limits("mail") == LimitOverride(1, ":", "100/m")
    person.get_by_text("set by an operator").click()
    looks_well(person, axe)


@LOOKS
def test_a_job_is_put_by_a_form_that_keeps_what_was_typed_cloned_and_edited(queue, person, axe):
    person.goto("/jobs")
    person.get_by_role("link", name="Put a job").click()
    person.get_by_label("Topic").fill("shop.mail")
    person.get_by_label("Body").fill('{\n"order": 7}')
    person.get_by_label("Due in").fill("soon")
    person.get_by_role("button", name="Put").click()
    person.get_by_role("alert").get_by_text("soon").wait_for()
    looks_well(person, axe)
    person.get_by_label("Due in").fill("2h")
    person.get_by_role("button", name="Put").click()
    person.get_by_role("status").get_by_text("was put").wait_for()
    for link, button in (("Clone", "Put"), ("Edit", "Save")):
        person.get_by_role("link", name=link).click()
        assert person.get_by_label("Body").input_value() == '{\n"order": 7}'
        looks_well(person, axe)
        person.get_by_role("button", name=button).click()
        person.get_by_role("status").wait_for()
    assert [job.json() for job in queue.jobs.list()] == [{"order": 7}] * 2


@LOOKS
def test_all_that_a_search_finds_is_rescheduled(shop, person, axe):
    person.goto("/jobs?topic=order.expire")
    person.select_option("#scope", "all")
    person.get_by_role("button", name="Reschedule…").click()
    person.get_by_label("Due in").fill("later")
    person.get_by_role("button", name="Reschedule 80").click()
    person.get_by_role("alert").get_by_text("later").wait_for()
    looks_well(person, axe)
    person.get_by_label("Due in").fill("3d")
    person.get_by_role("button", name="Reschedule 80").click()
    person.get_by_text("80 rescheduled. Done.").wait_for()


@LOOKS
def test_who_is_signed_in_by_a_proxy_sees_under_which_name(guarded, stranger, axe):
    guarded.context.access.sign_in = ProxySignIn("X-Forwarded-User", ["127.0.0.1"], "operator")
    stranger.set_extra_http_headers({"X-Forwarded-User": "ada@example.net"})
    opened(stranger)
    stranger.get_by_text("ada@example.net, operator").wait_for()
    looks_well(stranger, axe)


def cancelled(queue, page, id):
    queue.cancel(id)
    page.locator("#job-state", has_text="cancelled").wait_for()


def claimed(queue, page, id):
    queue.reserve("mail")
    page.locator("#running").get_by_role("link", name=str(id)).wait_for()


@pytest.mark.parametrize(("path", "change"), [("/workers", claimed), ("/jobs/{id}", cancelled)])
def test_an_open_page_goes_on_after_the_store_was_away(queue, browser, guarded, monkeypatch, path, change):
    def away(secret):
        raise StoreAway("the store is away")

    id = queue.put("mail", b"", delay=600 if change is cancelled else 0)
    person = browser.person(guarded, token="viewer")
    person.goto(path.format(id=id))
    with monkeypatch.context() as patch:
        patch.setattr(guarded.tokens, "grant", away)
        with person.expect_response(lambda answer: answer.status == 503):
            pass
    change(queue, person, id)
