"""The admin's list of jobs: read, cancel, retry. The pages show the jobs of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.timezone import get_current_timezone

from .._errors import NoSuchJob, PywheelError
from ..jobs import Change, State
from ..jobs import Job as StoredJob
from ..jobs.bodies import is_encrypted
from ..jobs.job import state_of
from ..jobs.queries import Filter, GetPage, ListTopics
from .models import Job
from .program import queue

V = TypeVar("V", bound=Callable[..., HttpResponse])
_PAGE: Final = 100
_LOOKS: Final = 5  # queries for one page, each of which looks at a thousand jobs
_SHOWN: Final = 10_000  # characters of a body
_FILTERS: Final = ("topic", "state", "key", "error")
_LIST: Final = "admin/pywheel/job/change_list.html"
_JOB: Final = "admin/pywheel/job/change_form.html"


def _outside_transactions(view: V) -> V:
    """Mark a view for which ATOMIC_REQUESTS opens no transaction: on SQLite a job's change would wait for its end."""
    for alias in connections:
        transaction.non_atomic_requests(using=alias)(view)
    return view


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Two pages: the jobs that a filter selects, by id, and one job with its attempts.

    The right to view jobs includes their bodies. The right to change them allows to cancel and retry.
    """

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Return False: programs put jobs."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002
        """Return False: finished jobs are purged by workers, or by the command."""
        return False

    @_outside_transactions
    def changelist_view(self, request: HttpRequest, extra_context: Mapping[str, Any] | None = None) -> HttpResponse:
        """List jobs; a POST cancels or retries the chosen ones, and redirects here."""
        self._allow(request)
        if request.method == "POST":
            self._change(request, request.POST.getlist("id"), request.POST.get("action", ""))
            return HttpResponseRedirect(request.get_full_path())
        wanted = {name: value for name in _FILTERS if (value := request.GET.get(name, "").strip())}
        jobs: list[StoredJob] = []
        topics: list[str] = []
        following = None
        try:
            jobs, following = _found(wanted, request.GET.get("after", ""))
            topics = [topic.name for topic in queue.store.ask(ListTopics())]
        except PywheelError as error:
            messages.error(request, str(error))
        more = None
        if following:
            query = request.GET.copy()
            query["after"] = following
            more = query.urlencode()
        found = {
            "rows": [_row(job) for job in jobs],
            "topics": topics,
            "states": list(State),
            "wanted": wanted,
            "more": more,
        }
        return self._page(request, _LIST, "Jobs", found | dict(extra_context or {}))

    @_outside_transactions
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: Mapping[str, Any] | None = None,
    ) -> HttpResponse:
        """Show a job; a POST cancels or retries it, and redirects here."""
        self._allow(request)
        if request.method == "POST":
            self._change(request, [object_id], request.POST.get("action", ""))
            return HttpResponseRedirect(request.path)
        try:
            job = queue.get(_number(object_id))
            history = queue.jobs.history(job.id)
        except NoSuchJob:
            raise Http404(f"no job {object_id:.40}") from None
        except PywheelError as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(reverse("admin:pywheel_job_changelist"))
        attempts = [
            attempt._replace(started=_time(attempt.started), ended=_time(attempt.ended))  # type: ignore[arg-type]
            for attempt in history
        ]
        found = {"row": _row(job), "body": _body(job), "headers": list(job.headers.items()), "history": attempts}
        return self._page(request, _JOB, f"Job {job.id}", found | dict(extra_context or {}))

    @_outside_transactions
    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        """Show the job, whose page has its attempts."""
        return self.change_view(request, object_id, extra_context=extra_context)

    def _allow(self, request: HttpRequest) -> None:
        may = self.has_change_permission if request.method == "POST" else self.has_view_permission
        if not may(request):
            raise PermissionDenied

    def _change(self, request: HttpRequest, ids: list[str], action: str) -> None:
        """Cancel or retry jobs, and show a message with the outcome."""
        methods: dict[str, tuple[Callable[[int], Change], str]] = {
            "cancel": (queue.cancel, "cancelled"),
            "retry": (queue.jobs.retry, "to be tried again"),
        }
        if action not in methods:
            messages.error(request, "choose what is to be done")
            return
        method, done = methods[action]
        found = Counter[Change]()
        try:
            for id in ids:
                found[method(_number(id))] += 1
        except PywheelError as error:
            messages.error(request, str(error))
        changed = found.pop(Change.MADE, 0)
        level = messages.SUCCESS if changed else messages.WARNING
        others = ", ".join(f"{number} {change}" for change, number in found.items())
        messages.add_message(request, level, f"{done}: {changed} of {len(ids)}{others and f' ({others})'}")

    def _page(self, request: HttpRequest, template: str, title: str, found: Mapping[str, Any]) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,
            "title": title,
            "may_change": self.has_change_permission(request),
            **found,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, template, context)


def _found(wanted: Mapping[str, str], after: str) -> tuple[list[StoredJob], str | None]:
    """Return a page of jobs without their bodies, and the cursor of the next one.

    It looks at some thousands of jobs at most. So the page may have few jobs, or none, although there are more.
    """
    policy: dict[str, Any] = dict(wanted)
    if "state" in policy:
        policy["state"] = state_of(policy["state"])
    filter = Filter(**policy)
    jobs: list[StoredJob] = []
    for _ in range(_LOOKS):
        found = queue.store.ask(GetPage(filter, after, _PAGE - len(jobs), preview=0))
        jobs += found.jobs
        if found.next is None:
            return jobs, None
        after = found.next
        if len(jobs) >= _PAGE:
            break
    return jobs, after


def _number(text: str | None) -> int:
    """Return an id; if the text is none, return 0, which no job has."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else 0


def _row(job: StoredJob) -> dict[str, Any]:
    """Return a job as the pages show it."""
    return {
        "id": job.id,
        "topic": job.topic,
        "state": str(job.state),
        "key": job.key,
        "due": _time(job.due),
        "created": _time(job.created),
        "attempt": job.attempt,
        "error": job.last_error,
        "may_cancel": job.state is State.DELAYED,
        "may_retry": not job.state.live,
    }


def _time(ms: int | None) -> datetime | None:
    """Return a time for Django: in the current time zone, or, without USE_TZ, a naive one in the local time zone."""
    try:
        zone = get_current_timezone() if settings.USE_TZ else None
        return None if ms is None else datetime.fromtimestamp(ms / 1000, zone)
    except (ValueError, OverflowError):  # beyond the year 9999 there
        return None


def _body(job: StoredJob) -> str:
    if is_encrypted(job.body):
        return "(encrypted)"
    return job.body.decode("utf-8", "backslashreplace")[:_SHOWN]
