"""The receiver of docs/outlets.md verifies what the outlet signs, and nothing else."""

import base64
import time

from pywheel.outlets.webhook import decoded, signature
from tests.docs.pages import blocks

OURS, THEIRS = (f"whsec_{base64.b64encode(bytes([byte]) * 32).decode()}" for byte in (0xFB, 1))
BODY = '{"order": 7}'


def delivery(*secrets, old=0, body=BODY, **changed):
    """Return what a receiver with the secret OURS gets: signed with these, so many seconds ago."""
    sent = int(time.time()) - old
    signed = signature(map(decoded, secrets), "job_1_a", sent, BODY.encode())
    headers = {"webhook-id": "job_1_a", "webhook-timestamp": str(sent), "webhook-signature": signed, **changed}
    return {"secret": OURS, "body": body, "headers": {name: value for name, value in headers.items() if value}}


def test_a_receiver_takes_what_its_secret_signed_in_the_last_five_minutes_and_nothing_else():
    [code] = blocks("docs/outlets.md", "py")
    names = {}
    exec(code, names)
    right = [delivery(OURS), delivery(OURS, THEIRS), delivery(THEIRS, OURS), delivery(OURS, old=200)]
    changed = [(name, said) for name in ("id", "timestamp", "signature") for said in ("", "x")]
    wrong = [
        *(delivery(), delivery(THEIRS), delivery(OURS, old=400), delivery(OURS, old=-400)),
        *(delivery(OURS, body=BODY + " "), *(delivery(OURS, **{f"webhook-{name}": said}) for name, said in changed)),
    ]
    found = [names["verified"](case["secret"], case["headers"], case["body"].encode()) for case in right + wrong]
    assert found == [True] * len(right) + [False] * len(wrong)
