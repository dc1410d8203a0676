"""FastAPI, Flask, gunicorn and uvloop: the server is started, requests are sent, jobs are delivered, all is stopped."""

import re

import pytest

from tests.frameworks.programs import FOLDER
from tests.isolated.child import run_well
from tests.jobs.waiting import LIMIT, until

GUNICORN = ("-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:PORT", "--no-control-socket")
UVICORN_WORKER = ("--worker-class", "uvicorn_worker.UvicornWorker")
SERVERS = {
    "uvicorn": ("-m", "uvicorn", "--port", "PORT", "fastapi_shop:app"),
    "uvicorn-two": ("-m", "uvicorn", "--workers", "2", "--port", "PORT", "fastapi_shop:app"),
    "uvicorn-gunicorn": (*GUNICORN, *UVICORN_WORKER, "fastapi_shop:app"),
    "flask": ("-m", "flask", "--app", "flask_shop", "run", "--port", "PORT"),
    "flask-gunicorn": (*GUNICORN, "--config", "gunicorn.conf.py", "flask_shop:app"),
    "flask-threads": (*GUNICORN, "--threads", "4", "--config", "gunicorn.conf.py", "flask_shop:app"),
}
ENDED = (0, -15)  # uvicorn ends by the signal that it was told to end by, and Flask's own server knows no other end
WORK = ("-m", "pywheel.cli", "work", "flask_shop:queue")


def placed(program, count):
    """Place orders; return their jobs."""
    answers = [program.ask("POST", f"/orders/{n}?delay=200ms") for n in range(count)]
    assert {status for status, _ in answers} == {201}, answers
    return [answer["job"] for _, answer in answers]


def all_done(program, jobs):
    return all(program.ask("GET", f"/jobs/{job}") == (200, {"state": "done"}) for job in jobs)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_delivers_what_its_requests_put(start, server):
    shop = start(*SERVERS[server])
    worker = start(*WORK) if server == "flask" else None
    jobs = placed(shop, 20)
    until(lambda: all_done(shop, jobs))
    assert [shop.ask("POST", f"/orders/77{what}")[0] for what in ("?delay=1h", "")] == [201, 409]
    assert shop.ask("POST", "/orders/77/pay") == (200, {"state": "paid"})
    assert shop.ask("POST", "/orders/77/pay")[0] == 409
    assert shop.stop() in ENDED, shop.said
    if worker is not None:
        assert worker.stop() == 0
    else:
        assert "Traceback" not in shop.said
    if "flask-" in server:
        assert len(re.findall(r"order \d+ is closed, in process", shop.said)) == 20


def test_no_process_of_the_server_works_if_none_shall(start):
    shop = start(*SERVERS["flask-gunicorn"], SHOP_WORKERS="none")
    [job] = placed(shop, 1)
    assert shop.ask("GET", f"/jobs/{job}") == (200, {"state": "delayed"})
    worker = start(*WORK)
    until(lambda: all_done(shop, [job]))
    assert worker.stop() == 0
    assert "is closed" not in shop.said


@pytest.mark.drawn(2)
@pytest.mark.parametrize("store", ["sqlite", "postgres", "mariadb", "redis"])
def test_a_queue_that_the_parent_has_used_works_in_each_process_after_the_fork(request, start, tmp_path, store):
    """As where a program puts a job when it is imported, under --preload."""
    place = {} if store == "sqlite" else {"PYWHEEL_STORE": request.getfixturevalue(f"{store}_server").url()}
    (tmp_path / "early_shop.py").write_text("from flask_shop import app, queue\n\nqueue.put('early')\n")
    (tmp_path / "gunicorn.conf.py").write_text((FOLDER / "gunicorn.conf.py").read_text())
    command = (*GUNICORN, "--pythonpath", str(FOLDER), "--config", "gunicorn.conf.py", "early_shop:app")
    shop = start(*command, folder=tmp_path, **place)
    jobs = placed(shop, 20)
    until(lambda: all_done(shop, jobs))
    assert shop.stop() == 0
    assert "Traceback" not in shop.said


def test_uvloop_runs_puts_and_handlers():
    pytest.importorskip("uvloop")
    said = run_well("-W", "error", str(FOLDER / "uvloop_shop.py"), "50")
    assert said == "50 orders closed; handlers and puts on uvloop\n"


def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(FOLDER / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output["data"]["text/plain"] for output in outputs] == ["[1, 2, 3]", "[0, 1, 2]", "True"]
