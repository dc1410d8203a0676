"""What this shop does, without a worker: ``python manage.py test``."""

from datetime import UTC, datetime

from django.contrib.auth.models import Permission, User
from django.test import Client, TestCase
from django.utils import timezone

from pywheel.django import queue
from pywheel.testing import QueueTester

from .jobs import mail
from .models import Order


class ShopTest(TestCase):
    def setUp(self):
        self.jobs = QueueTester(queue, raises=True)
        self.addCleanup(self.jobs.close)

    def place(self):
        return self.client.post("/orders").json()["order"]

    def state(self, order):
        return Order.objects.get(pk=order).state


class OrderTest(ShopTest):
    def test_an_unpaid_order_is_closed(self):
        order = self.place()
        self.jobs.assert_put("order.close", order=order, delay="30m", key=f"order-{order}")
        self.jobs.advance("29m")
        assert self.state(order) == "unpaid"
        self.jobs.advance("1m")
        assert self.state(order) == "closed"

    def test_a_paid_order_is_not(self):
        order = self.place()
        with self.captureOnCommitCallbacks(execute=True):
            assert self.client.post(f"/orders/{order}/pay").status_code == 200
        assert self.client.post(f"/orders/{order}/pay").status_code == 409
        self.jobs.assert_put(mail, order=order, count=1)
        assert self.jobs.jobs("order.close")[0].state == "cancelled"

    async def test_coroutine_handlers_are_tested_by_coroutines(self):
        # Django gives them the connection, and so the transaction, of the test; plain handlers too.
        order = await Order.objects.acreate()
        await mail.options(delay="1d").aio.put(order.pk)
        await queue.aio.put("order.close", {"order": order.pk}, delay="2d")
        await self.jobs.aadvance("3d")
        await order.arefresh_from_db()
        assert (order.mails, order.state) == (1, "closed")


class AdminTest(ShopTest):
    def setUp(self):
        super().setUp()
        self.admin = User.objects.create_superuser("admin")
        self.client.force_login(self.admin)

    def page(self, path="", code=200, **query):
        answer = self.client.get(f"/admin/pywheel/job/{path}", query)
        assert answer.status_code == code
        return answer.content.decode()

    def test_the_index_leads_to_the_list(self):
        assert 'href="/admin/pywheel/job/"' in self.client.get("/admin/").content.decode()

    def test_the_list_has_what_a_filter_means(self):
        queue.put("mail", {"to": 5}, delay="1h", key="<b>")
        queue.put("other", {"to": 6})
        whole = self.page()
        assert "&lt;b&gt;" in whole
        assert "<td>other</td>" in whole
        assert "<td>other</td>" not in self.page(topic="mail")
        assert "No job here." in self.page(state="dead")
        assert "No job here." in self.page(error="refused")
        assert "nonsense" in self.page(state="nonsense")

    def test_a_long_list_has_pages(self):
        queue.put_many([queue.job("mail", n) for n in range(101)])
        first = self.page(topic="mail")
        assert "?topic=mail&amp;after=i100" in first
        assert "Next page" not in self.page(topic="mail", after="i100")
        assert "is not a cursor" in self.page(after="nonsense")

    def test_a_job_shows_its_body_and_what_was_tried(self):
        queue.handler("broken")(lambda job: 1 / 0)
        self.addCleanup(queue.handlers.pop, "broken")
        self.jobs.raises = False
        id = queue.put("broken", {"to": "<script>"}, headers={"x": "y"})
        self.jobs.run_due()
        page = self.page(f"{id}/change/")
        assert "{&quot;to&quot;:&quot;&lt;script&gt;&quot;}" in page
        assert "ZeroDivisionError" in page
        assert "run_due" in page
        self.page("999/change/", code=404)
        self.page("x/change/", code=404)

    def test_times_are_shown_as_the_project_shows_times(self):
        due = datetime(2031, 5, 6, 12, 30, tzinfo=UTC)
        id = queue.put("mail", at=due)
        for own, shown in ((True, "2031-05-06 17:30:00"), (False, f"{due.astimezone():%Y-%m-%d %H:%M:%S}")):
            with self.settings(USE_TZ=own), timezone.override("Asia/Tashkent"):
                assert shown in self.page()
                assert shown in self.page(f"{id}/change/")

    def test_a_time_that_is_beyond_the_year_9999_in_the_time_zone_is_left_out(self):
        id = queue.put("mail", at=datetime(9999, 12, 31, 23, tzinfo=UTC))
        with timezone.override("Asia/Tokyo"):
            assert f">{id}</a>" in self.page()
            assert "delayed" in self.page(f"{id}/change/")

    def test_a_header_may_have_any_name(self):
        id = queue.put("mail", headers={"items": "abc"})
        assert "<th>items</th><td>abc</td>" in self.page(f"{id}/change/")

    def test_jobs_are_cancelled_and_retried(self):
        ids = [queue.put("mail", n, delay="1h") for n in range(3)]
        self.client.post("/admin/pywheel/job/?topic=mail", {"action": "cancel", "id": ids[:2]})
        assert [job.state for job in queue.jobs.list("mail")] == ["cancelled", "cancelled", "delayed"]
        assert "Cancelled: 2 of 2" in self.page()
        self.client.post(f"/admin/pywheel/job/{ids[0]}/change/", {"action": "retry"})
        assert queue.get(ids[0]).state == "delayed"
        self.client.post("/admin/pywheel/job/", {"action": "nonsense", "id": ids})
        assert "Choose what is to be done" in self.page()

    def test_who_may_only_view_changes_nothing(self):
        id = queue.put("mail", delay="1h")
        reader = User.objects.create_user("reader", is_staff=True)
        self.client.force_login(reader)
        self.page(code=403)
        reader.user_permissions.add(Permission.objects.get(codename="view_job"))
        assert 'name="action"' not in self.page()
        for path in ("", f"{id}/change/"):
            answer = self.client.post(f"/admin/pywheel/job/{path}", {"action": "cancel", "id": [id]})
            assert answer.status_code == 403
        assert queue.get(id).state == "delayed"

    def test_a_stranger_is_sent_to_the_login_and_a_forged_form_is_refused(self):
        self.client.logout()
        self.page(code=302)
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(self.admin)
        answer = strict.post("/admin/pywheel/job/", {"action": "cancel", "id": [1]})
        assert answer.status_code == 403
