import os
from functools import partial

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt

from pywheel.django import queue

from .jobs import mail
from .models import Order

UNPAID = os.environ.get("SHOP_UNPAID", "30m")


@csrf_exempt
def orders(request: HttpRequest) -> JsonResponse:
    """Place an order. It exists exactly if the job exists that closes it: one transaction has both."""
    with transaction.atomic():
        order = Order.objects.create()
        queue.put("order.close", {"order": order.pk}, delay=UNPAID, key=f"order-{order.pk}", connection=connection)
        if request.GET.get("card") == "refused":
            transaction.set_rollback(True)
            return JsonResponse({"error": "the card was refused"}, status=402)
    return JsonResponse({"order": order.pk}, status=201)


def order(request: HttpRequest, number: int) -> JsonResponse:
    found = get_object_or_404(Order, pk=number)
    return JsonResponse({"state": found.state, "mails": found.mails, "invoiced": found.invoiced})


@csrf_exempt
def pay(request: HttpRequest, number: int) -> JsonResponse:
    """Pay an order: exactly if its job is cancelled, or runs already. The mail is put once that is committed."""
    with transaction.atomic():
        paid = Order.objects.filter(pk=number, state="unpaid").update(state="paid")
        if paid:
            queue.cancel(("order.close", f"order-{number}"), connection=connection)
            transaction.on_commit(partial(mail.put, order=number))
            transaction.on_commit(partial(queue.put, "order.invoice", {"order": number}))
    return JsonResponse({"paid": bool(paid)}, status=200 if paid else 409)
