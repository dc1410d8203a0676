"""The receiver of docs/outlets.md, and one in Go, verify what the outlet signs, and nothing else."""

import base64
import json
import time

import pytest

from pywheel.outlets.webhook import decoded, signature
from tests.clients.tools import run
from tests.docs.pages import blocks

PAGE = "docs/outlets.md"
OURS, THEIRS = (f"whsec_{base64.b64encode(bytes([byte]) * 32).decode()}" for byte in (0xFB, 1))
BODY = '{"order": 7}'
GO = """
package main

import (
	"crypto/hmac"; "crypto/sha256"; "encoding/base64"; "encoding/json"; "fmt"; "math"; "net/http"; "os"; "strconv"
	"strings"; "time"
)

func verified(secret string, header http.Header, body []byte) bool {
	sent := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || math.Abs(time.Since(time.Unix(seconds, 0)).Minutes()) > 5 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("webhook-id"), sent, body)
	wanted := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, given := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal(wanted, []byte(given)) { // in constant time
			return true
		}
	}
	return false
}

func main() {
	var cases []struct { Secret, Body string; Headers map[string]string }
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil { panic(err) }
	said := []bool{}
	for _, one := range cases {
		header := http.Header{}
		for name, value := range one.Headers { header.Set(name, value) }
		said = append(said, verified(one.Secret, header, []byte(one.Body)))
	}
	json.NewEncoder(os.Stdout).Encode(said)
}
"""


def delivery(*secrets, old=0, body=BODY, **changed):
    """Return what a receiver with the secret OURS gets: signed with these, so many seconds ago."""
    sent = int(time.time()) - old
    signed = signature(map(decoded, secrets), "job_1_a", sent, BODY.encode())
    headers = {"webhook-id": "job_1_a", "webhook-timestamp": str(sent), "webhook-signature": signed, **changed}
    return {"secret": OURS, "body": body, "headers": {name: value for name, value in headers.items() if value}}


def in_python(cases, _):
    [code] = blocks(PAGE, "py")
    names = {}
    exec(code, names)
    return [names["verified"](case["secret"], case["headers"], case["body"].encode()) for case in cases]


def in_go(cases, folder):
    (folder / "verify.go").write_text(GO)
    quiet = {"GO111MODULE": "off", "GOCACHE": str(folder / "cache")}
    return json.loads(run("go", "run", folder / "verify.go", given=json.dumps(cases), **quiet))


@pytest.mark.parametrize("verify", [in_python, in_go])
def test_a_receiver_takes_what_its_secret_signed_in_the_last_five_minutes_and_nothing_else(verify, tmp_path):
    right = [delivery(OURS), delivery(OURS, THEIRS), delivery(THEIRS, OURS), delivery(OURS, old=200)]
    wrong = [
        delivery(),
        delivery(THEIRS),
        delivery(OURS, old=400),
        delivery(OURS, old=-400),
        delivery(OURS, body=BODY + " "),
        *(
            delivery(OURS, **{f"webhook-{name}": said})
            for name in ("id", "timestamp", "signature")
            for said in ("", "x")
        ),
    ]
    assert verify(right + wrong, tmp_path) == [True] * len(right) + [False] * len(wrong)
