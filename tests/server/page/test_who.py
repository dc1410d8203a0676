"""The rights on the page: each form and each address, by each role, by strangers, and from elsewhere."""

import contextlib

import pytest

from pywheel.jobs.commands import Announce
from pywheel.jobs.job import State
from pywheel.jobs.queries import ListNotes
from pywheel.stores.schedule_notes import TOPIC as SCHEDULES

from .site import buttons, dead, post
from .test_actions import wait_until_over
from .test_audit import log

OWN, FOREIGN = "shop.mail", "bank.pay"
PUT, ADMIN = {"operator", "admin", "shop_admin"}, {"admin", "shop_admin"}
ROLES = ("viewer", "operator", "admin", "shop_admin")
STRANGERS = (None, "wrong", "worker")
# path, fields, who may do it where it is theirs; what {job} and the like are for a topic, `places` says.
DEEDS = [
    ("/jobs/{job}", {"action": "cancel", "shown": "{shown}"}, PUT),
    ("/jobs/{job}", {"action": "reschedule", "delay": "1h", "shown": "{shown}"}, PUT),
    ("/jobs/{dead}", {"action": "retry", "shown": "dead.1"}, PUT),
    ("/jobs/{job}", {"action": "delete", "shown": "{shown}"}, ADMIN),
    ("/topics", {"topic": "{topic}", "action": "pause"}, ADMIN),
    ("/topics", {"topic": "{topic}", "action": "limit", "limit": "1"}, ADMIN),
    ("/topics", {"topic": "{topic}", "action": "as_code"}, ADMIN),
    ("/jobs", {"topic": "{topic}", "action": "cancel", "scope": "all"}, ADMIN),
    ("/bulk", {"topic": "{topic}", "action": "cancel"}, ADMIN),
    ("/bulk", {"topic": "{topic}", "action": "reschedule", "delay": "1h"}, ADMIN),
    ("/dead", {"topic": "{topic}", "action": "retry", "like": "it failed"}, ADMIN),
    ("/put", {"topic": "{topic}", "body": "typed"}, PUT),
    ("/put", {"topic": OWN, "clone": "{job}"}, PUT),
    ("/put", {"clone": "{job}", "edit": "{edit}", "body": "new", "priority": ""}, PUT),
    ("/schedules", {"name": "{schedule}", "action": "run"}, PUT),
    ("/schedules", {"name": "{schedule}", "action": "pause"}, PUT),
    ("/schedules", {"name": "{schedule}", "action": "remove"}, PUT),
    ("/schedules/form", {"name": "new", "topic": "{topic}", "every": "1h"}, PUT),
    ("/schedules/form", {"name": "{schedule}", "topic": OWN, "every": "2h", "edit": "1"}, PUT),
    ("/workers", {"worker": "{worker}", "action": "quiet"}, ADMIN),
]
# address: who may look at it, of a topic that is theirs and of another one
LOOKS = {
    **dict.fromkeys(("/", "/jobs", "/dead", "/workers", "/schedules", "/charts"), (set(ROLES), set(ROLES))),
    **dict.fromkeys(("/log",), (ADMIN, ADMIN)),
    **dict.fromkeys(("/put", "/schedules/form"), (PUT, PUT)),
    **dict.fromkeys(("/outlets", "/coming"), ({"viewer", "operator", "admin"},) * 2),
    **dict.fromkeys(
        (
            "/jobs?topic={topic}", "/coming?topic={topic}", "/charts?topic={topic}", "/jobs/export?topic={topic}",
            "/jobs/{job}", "/jobs/{job}/body", "/live?view=topic&topic={topic}",
        ),
        (set(ROLES), {"viewer", "operator", "admin"}),
    ),
    **dict.fromkeys(
        ("/put?clone={job}", "/put?clone={job}&edit=1", "/schedules/form?name={schedule}"), (PUT, {"operator", "admin"})
    ),
}  # fmt: skip


@pytest.fixture
def places(queue):
    """What forms and addresses name, for each of two topics."""
    found = {}
    with contextlib.ExitStack() as stack:
        for topic in (OWN, FOREIGN):
            gone = dead(queue, topic)
            job = queue.get(queue.put(topic, b"secret", delay=60, key="k"))
            schedule = f"nightly {len(found)}"
            queue.schedules.set(schedule, topic, every="1h")
            ear = stack.enter_context(contextlib.closing(queue.store.notifier(f"host{len(found)}:1")))
            queue.store.apply([Announce(ear.worker, (OWN, topic, SCHEDULES))])
            words = {
                "job": job.id,
                "dead": gone,
                "edit": f"{job.due}.{job.claims}",
                "shown": "delayed.0",
                "worker": ear.worker,
            }
            found[topic] = {"topic": topic, "schedule": schedule, **words}
        yield found


def filled(fields, words):
    return {name: value.format(**words) for name, value in fields.items()}


def kept(queue):
    """Return all that somebody may have changed."""
    return queue.jobs.list(), queue.topics.list(), queue.schedules.list(), queue.store.ask(ListNotes(""))


@pytest.mark.parametrize("topic", [OWN, FOREIGN])
@pytest.mark.parametrize(("path", "fields", "who"), DEEDS)
def test_a_form_changes_something_for_those_who_may_and_nothing_for_others(
    queue, guarded, sites, places, path, fields, who, topic
):
    may = who - ({"shop_admin"} if topic == FOREIGN else set())
    path, fields = path.format(**places[topic]), filled(fields, places[topic])
    before = kept(queue)
    tried = [(guarded, role, {}) for role in (*STRANGERS, *ROLES) if role not in may]
    tried += [(guarded, "admin", {"sec-fetch-site": "cross-site"}), (sites(queue, read_only=True), None, {})]
    for site, role, headers in tried:
        with site.client(role, **headers) as client:
            answer = post(client, path, **fields)
        assert answer.status_code in ((401,) if site is guarded and role in STRANGERS else (403, 404)), role
        assert role != "shop_admin" or "bank" in str(fields) or "bank" not in answer.text  # as if it did not exist
        assert kept(queue) == before
    for role in sorted(may):  # the first changes it, and those who come later are not told that they may not
        with guarded.client(role) as client:
            answer = post(client, path, **fields)
            assert answer.status_code not in (401, 403), role
            if "/bulk/" in answer.headers.get("location", ""):
                wait_until_over(client, answer)
        assert (kept(queue) == before) is (fields.get("scope") == "all")  # which asks whether it shall


@pytest.mark.parametrize("role", ROLES)
def test_each_role_sees_what_it_may_and_a_token_for_some_topics_nothing_of_others(guarded, places, role):
    with guarded.client(role) as client:
        for address, who in LOOKS.items():
            for topic, may in zip((OWN, FOREIGN), who, strict=True):
                with client.stream("GET", address.format(**places[topic])) as answer:  # one of them has no end
                    assert (answer.status_code == 200) is (role in may), (address, topic)
                    assert answer.status_code in (200, 403, 404)
                    if role == "shop_admin" and answer.status_code != 403 and "/live" not in address:
                        assert "bank" not in answer.read().decode().replace(f'value="{FOREIGN}"', ""), address


OFFERED = {
    "viewer": ([], []),
    "operator": (["cancel", "reschedule", "retry"], ["pause", "remove", "run"]),
    "admin": (
        ["cancel", "delete", "reschedule", "retry"],
        ["cancel", "delete", "pause", "quiet", "remove", "reschedule", "retry", "run", "stop"],
    ),
}


@pytest.mark.parametrize("role", OFFERED)
def test_each_role_has_the_buttons_of_what_it_may_do(guarded, places, role):
    of_jobs, of_many = OFFERED[role]
    with guarded.client(role) as client:
        pages = [client.get(f"/jobs/{places[OWN][which]}").text for which in ("job", "dead")]
        assert sorted({*buttons(pages[0]), *buttons(pages[1])}) == of_jobs
        many = [client.get(path).text for path in ("/", "/jobs", "/dead", "/schedules", "/workers")]
        assert sorted({button for page in many for button in buttons(page)}) == of_many
        assert ("/put?" in pages[0], 'href="/put"' in many[1]) == (role != "viewer",) * 2
        assert ("New schedule</a>" in many[3]) is (role != "viewer")
        assert ('href="/log"' in many[0]) is (role == "admin")


def test_a_site_that_only_reads_has_no_button_and_no_form(queue, sites, places):
    jobs = [f"/jobs/{places[OWN][which]}" for which in ("job", "dead")]
    with sites(queue, read_only=True).client() as client:
        for path in ("/", "/jobs", "/dead", "/schedules", "/workers", *jobs):
            assert buttons(client.get(path).text) == []
        assert {client.get(path).status_code for path in ("/put", "/schedules/form")} == {403}


def test_a_token_for_some_topics_changes_of_all_that_it_names_its_own(queue, guarded, places):
    own, foreign = (places[topic]["job"] for topic in (OWN, FOREIGN))
    with guarded.client("admin") as client:
        for topic in (OWN, FOREIGN):
            post(client, "/topics", topic=topic, action="pause")
    with guarded.client("shop_admin") as client:
        post(client, "/bulk", action="cancel", id=[own, foreign])
        assert (queue.get(own).state, queue.get(foreign).state) == (State.CANCELLED, State.DELAYED)
        queue.jobs.retry(own)
        assert "Cancel 1 job?" in post(client, "/jobs", action="cancel").text
        progress = wait_until_over(client, post(client, "/bulk", action="cancel"))
        assert "1 cancelled" in progress
        assert "looked at" not in progress
        assert queue.get(foreign).state is State.DELAYED
        assert log(client) == [("3", "pause", f"topic {OWN} {OWN}", "done")]
        assert client.get("/workers").text.count('value="quiet"') == 1
