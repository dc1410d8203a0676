"""The page's schedules: who sees them, and who runs and pauses them."""

import re

from pywheel import State

from .site import post, said


def test_each_says_when_it_comes_and_can_be_run_paused_and_resumed(queue, client):
    assert "There is no schedule" in client.get("/schedules").text
    queue.schedules.set("<night>", "work", every="1h")
    page = client.get("/schedules").text
    assert "&lt;night&gt;" in page
    assert "every 1h" in page
    told = said(client, post(client, "/schedules", name="<night>", action="run"))
    assert queue.get(int(re.search(r"job (\d+)", told)[1])).state is State.DELAYED
    assert said(client, post(client, "/schedules", name="<night>", action="pause")) == "&lt;night&gt; is paused"
    assert queue.schedules.get("<night>").schedule.paused
    assert "Resume" in client.get("/schedules").text
    assert said(client, post(client, "/schedules", name="<night>", action="resume")) == "&lt;night&gt; goes on"
    assert post(client, "/schedules", name="<night>", action="drop").status_code == 400
    assert post(client, "/schedules", name="none", action="run").status_code == 404


def test_a_name_may_have_slashes(queue, client):
    queue.schedules.set("shop/night", "work", every="1h")
    assert said(client, post(client, "/schedules", name="shop/night", action="pause")) == "shop/night is paused"


def test_a_viewer_sees_them_and_an_operator_runs_them(queue, guarded):
    queue.schedules.set("night", "work", every="1h")
    queue.schedules.set("shopping", "shop.mail", every="1h")
    for who, sees, status in (("viewer", {"night", "shopping"}, 403), ("operator", {"night", "shopping"}, 303)):
        with guarded.client(who) as client:
            page = client.get("/schedules").text
            assert {name for name in ("night", "shopping") if name in page} == sees
            assert ("Run now" in page) is (status == 303)
            assert post(client, "/schedules", name="night", action="pause").status_code == status
    with guarded.client("shop_admin") as client:
        page = client.get("/schedules").text
        assert "shopping" in page
        assert "night" not in page
        assert post(client, "/schedules", name="night", action="run").status_code == 403


def test_a_long_list_comes_in_parts(queue, client):
    for number in range(203):
        queue.schedules.set(f"s{number:03}", "work", every="1h")
    page = client.get("/schedules").text
    assert page.count('value="run"') == 200
    following = re.search(r'/schedules\?after=([^"]+)"', page)[1]
    assert client.get(f"/schedules?after={following}").text.count('value="run"') == 3
