"""A shop on Flask: unpaid orders are closed after a while.

flask --app flask_shop run
gunicorn --preload --workers 2 --config gunicorn.conf.py flask_shop:app
pywheel work flask_shop:queue                       # if no process of the server is to work
"""

import os

from flask import Flask, current_app, jsonify, request

from pywheel import JobExists, JobQueue

# The function is called at the first put: in each worker process, and not before the server forks.
queue = JobQueue(lambda: os.environ.get("PYWHEEL_STORE", "sqlite:///shop.db"))
app = Flask(__name__)
app.config["UNPAID"] = os.environ.get("SHOP_UNPAID", "30m")


@queue.handler("order.close")
def close_order(job):
    with app.app_context():  # what extensions of Flask need
        current_app.logger.warning("order %s is closed, in process %s", job.json()["order"], os.getpid())


@app.post("/orders/<int:order>")
def place(order: int):
    try:
        delay = request.args.get("delay", app.config["UNPAID"])
        id = queue.put("order.close", {"order": order}, delay=delay, key=f"order-{order}")
    except JobExists:
        return jsonify(error="there is such an order"), 409
    return jsonify(job=id), 201


@app.post("/orders/<int:order>/pay")
def pay(order: int):
    """The job is all there is of an order here. Where orders are stored, record the payment first: fastapi_shop.py."""
    if not queue.cancel(("order.close", f"order-{order}")):
        return jsonify(error="the order is closed"), 409
    return jsonify(state="paid")


@app.get("/jobs/<int:job>")
def state(job: int):
    return jsonify(state=queue.get(job).state)
