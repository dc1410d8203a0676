"""The operators' page: the state of the queue, the forecast, and the actions."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Route

from ..context import Context
from . import answers, jobs, put, schedules, views
from .answers import Handler, guarded
from .charts import Charts
from .feed import Feed
from .templating import asset, prepare

__all__ = ["routes"]

_PACKED: Final = (Middleware(GZipMiddleware, minimum_size=600, compresslevel=5),)


def routes(context: Context) -> list[BaseRoute]:
    """Return the routes of the page, for any place in an application. Starts nothing; the first viewer does."""
    prepare()
    feed = Feed(context.live)
    endpoint = partial(guarded, context=context, feed=feed)

    def look(path: str, handler: Handler, *, packed: bool = True, anybody: bool = False) -> Route:
        middleware = _PACKED if packed else ()
        return Route(path, endpoint(handler, anybody=anybody), methods=["GET"], middleware=middleware)

    def act(path: str, handler: Handler, *, anybody: bool = False) -> Route:
        return Route(path, endpoint(handler, anybody=anybody), methods=["POST"], middleware=_PACKED)

    return [
        look("/", views.overview),
        look("/coming", views.coming),
        look("/charts", Charts().show),
        look("/workers", views.workers),
        act("/workers", views.order),
        look("/outlets", views.outlets),
        look("/log", views.log),
        act("/topics", views.act),
        look("/live", feed.stream, packed=False),  # each frame is compressed once for all
        look("/jobs", jobs.search),
        act("/jobs", jobs.ask_first),
        act("/bulk", jobs.begin),
        look("/bulk/{id}", jobs.progress),
        act("/bulk/{id}", jobs.end),
        look("/jobs/export", jobs.export, packed=False),
        look("/jobs/{id}", jobs.show),
        act("/jobs/{id}", jobs.act),
        look("/jobs/{id}/body", jobs.body),
        look("/put", put.show),
        act("/put", put.put),
        look("/dead", jobs.groups),
        act("/dead", jobs.act_on_group),
        look("/schedules", schedules.show),
        act("/schedules", schedules.act),
        look("/schedules/form", schedules.form),
        act("/schedules/form", schedules.save),
        look("/sign-in", answers.form, anybody=True),
        act("/sign-in", answers.enter, anybody=True),
        act("/sign-out", answers.leave, anybody=True),
        Route("/static/{version}/{name}", asset, methods=["GET"], middleware=_PACKED),
    ]
