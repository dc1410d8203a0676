"""The handlers of this app: pywheel imports the module `jobs` of each app once Django is ready."""

from django.db import transaction
from django.db.models import F

from pywheel import Fixed
from pywheel.django import queue

from .models import Order


@queue.handler("order.close", retry=Fixed("1s"))
def close_order(job):
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=job.json()["order"])
        if order.state == "unpaid":
            order.state = "closed"
            order.save()


@queue.handler("order.invoice", isolate=True)
def write_invoice(job):
    """In a process of its own, as what makes PDFs may crash it."""
    Order.objects.filter(pk=job.json()["order"]).update(invoiced=True)


@queue.task("order.mail")
async def mail(order: int) -> None:
    await Order.objects.filter(pk=order).aupdate(mails=F("mails") + 1)
