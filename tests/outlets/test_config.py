"""The config file of `pywheel deliver`: its meaning, and its errors by table and word."""

import re
from pathlib import Path

import pytest

from pywheel.outlets.answers import shown
from pywheel.outlets.config import ConfigError, load
from tests.outlets.certificates import authority
from tests.outlets.conftest import SECRET

WHOLE = """
[outlets.shop]
kind = "webhook"
topics = ["shop.notify", "shop.refund"]
secrets_env = ["NEW_SECRET", "OLD_SECRET"]
concurrency = 200
ttr = "30s"
retry = ["5s", "30s", "5m"]
jitter = 0
pass_headers = ["tenant"]

[outlets."ledger.eu"]
kind = "webhook"
url = "https://ledger.internal:8443/jobs?key=x"
secrets_file = "ledger.secret"
timeout = 20
connect_timeout = "500ms"
allow = ["ledger.internal"]
ports = []
per_host = 5
headers = { authorization_env = "TOKEN", x-plain = "1" }
proxy = "http://proxy.example:3128"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    for name in ("NEW_SECRET", "OLD_SECRET"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("TOKEN", f"Bearer {SECRET}")
    (tmp_path / "ledger.secret").write_text(SECRET + "\n")

    def write(text):
        path = tmp_path / "outlets.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_all_that_can_be_said(write):
    shop, ledger = load(write(WHOLE))
    assert (shop.name, shop.topics, shop.concurrency, shop.ttr) == ("shop", ("shop.notify", "shop.refund"), 200, 30)
    assert (shop.retry.delays, shop.retry.jitter) == ((5_000, 30_000, 300_000), 0)
    assert shop.outlet.kind == "webhook"
    assert (ledger.name, ledger.topics, ledger.concurrency, ledger.ttr) == ("ledger.eu", ("ledger.eu",), 100, 60)
    assert shown(ledger.outlet.target) == "https://ledger.internal:8443/jobs"
    assert ledger.retry.max_attempts == 10


ONE = '[outlets.shop]\nkind = "webhook"\n'
WRONG = {
    "nothing": ("", r"there is no outlet: write \[outlets.shop\]"),
    "no table": ("outlets = 5", "there is no outlet"),
    "a value instead of a table": ("[outlets]\nshop = 5", r"write \[outlets.shop\]"),
    "another table": (ONE + "[outlet.b]", "outlet is not known, did you mean outlets"),
    "broken TOML": (ONE + "url = https", r"line 3"),
    "no UTF-8": (b"\xff\xfe", "utf-8"),
    "no kind": ("\n[outlets.shop]\n", r": \[outlets.shop\]: kind is missing"),
    "a kind that is none": ('[outlets.shop]\nkind = "webhok"', r": .*did you mean webhook"),
    "a kind that is not text": ("[outlets.shop]\nkind = 5", r": \[outlets.shop\] kind: must be a text"),
    "a word that is none": (ONE + "concurency = 5", r": .*did you mean concurrency"),
    "a word of nobody": (ONE + "zzzzzz = 5", r": .*there are .*per_host"),
    "a flag for a number": (ONE + "concurrency = true", ": .*whole number"),
    "a number out of range": (ONE + "concurrency = 0", ": .*from 1 to 10000, not 0"),
    "no duration": (ONE + 'timeout = "soon"', ": .*not understood"),
    "a timeout of nothing": (ONE + "timeout = 0", ": .*1 ms or more"),
    "a ttr that is shorter than a delivery": (ONE + "timeout = 30\nttr = 30", ": .*longer than .* 30 s"),
    "a step that is none": (ONE + 'retry = ["5s", "x"]', ": .*a step of the ladder"),
    "jitter": (ONE + "jitter = 2", ": .*from 0 to 1"),
    "a topic that is none": (ONE + 'topics = [""]', ": .*none of them empty"),
    "a topic twice": (ONE + '[outlets.a]\nkind = "webhook"\ntopics = ["shop"]', r": .*outlets.shop\] already"),
    "a secret in the file": (ONE + f'secrets = "{SECRET}"', ": .*secrets_env"),
    "no such variable": (ONE + 'secrets_env = "NO_SUCH"', ": .*NO_SUCH is not set"),
    "no such file": (ONE + 'secrets_file = "no.such"', ": .*no.such cannot be read"),
    "no such authority": (ONE + 'ca_file = "no.such"', ": .*no.such cannot be read"),
    "a secret that is none": (ONE + 'secrets_env = "TOKEN"', r": .*written as whsec_ and base64"),
    "a URL that is none": (ONE + 'url = "shop.example"', ": .*https://"),
    "a port that is none": (ONE + "ports = [70000]", ": .*65535"),
    "a network that is none": (ONE + 'allow = ["10.0.0.0/99"]', ": .*not a network"),
    "a header that is ours": (ONE + 'headers = { Host = "x" }', ": .*the outlet itself sets"),
    "a header that is passed and is ours": (ONE + 'pass_headers = ["Host"]', ": .*the outlet itself sets"),
    "no topic": (ONE + "topics = []", ": .*topics: topics is empty"),
    "no step": (ONE + "retry = []", ": .*retry: retry is empty"),
    "a URL to which nothing is delivered": (ONE + 'url = "http://127.0.0.1/"', ": .*internal address.*allow"),
    "a URL with a port that is not allowed": (ONE + 'url = "https://a.example:8443/"', ": .*port 8443.*ports"),
    "a URL with a password": (ONE + 'url = "https://u:p@a.example/"', ": .*a password does not .*url_env"),
    "a proxy that is none": (ONE + 'proxy = "proxy.example"', ": .*proxy is written like"),
    "a proxy with a port that is none": (ONE + 'proxy = "http://a:x"', ": .*proxy"),
    "a proxy with a password": (ONE + 'proxy = "http://u:p@proxy.example"', ": .*proxy_env"),
    "a certificate that is none": (ONE + 'ca_file = "ledger.secret"', "certificate"),
    "an address of another kind": ('\n[outlets.a]\nkind = "rabbitmq"\nurl = "http://a"', ": .*written like amqp:"),
    "an address that is none": ('[outlets.a]\nkind = "rabbitmq"\nurl = "amqp://["', "written like amqp:"),
    "a header that is not text": (ONE + "headers = { a = 5 }", ": .*must be a text"),
    "a header without its variable": (ONE + 'headers = { a_env = "NO_SUCH" }', "NO_SUCH is not set"),
    "a word twice": (ONE + 'url = "https://a.example"\nurl_env = "TOKEN"', ": .*give one of url, url_env and"),
    "a flag that is none": ('[outlets.a]\nkind = "rabbitmq"\nurl = "amqp://a"\nmandatory = 1', ": .*true or false"),
    "a secret among options": ('[outlets.a]\nkind = "kafka"\nservers = "a:1"\noptions = {a = 1}', ": .*options_file"),
    "a kind that is a list": ("[outlets.shop]\nkind = []", r": \[outlets.shop\] kind: must be a text"),
    "headers that are no table": (ONE + 'headers = "a"', ": headers must be a table"),
    "ports that are no list": (ONE + "ports = 443", ": ports must be a list of numbers"),
    "an authority that is not text": (ONE + "ca = 5", ": ca must be certificates"),
    "options as a list": ('[outlets.a]\nkind = "kafka"\nservers = "a:1"\noptions_env = []', ": .*options must be"),
    "a long name": (f'[outlets.{"x" * 101}]\nkind = "webhook"', "1 to 100 characters"),
    "a secret that goes where jobs say": (ONE + 'headers = { a_env = "TOKEN" }', ": a .*allow_to"),
    **{
        f"the prefix {prefix}": (ONE + f'allow_to = ["https://b.example/", "{prefix}"]', r"shop\]: ")
        for prefix in ("shop.example", "https://u:p@a.example/", "https://a.example/?x=1", "/hooks", "*")
    },
    "a name with a colon": ('[outlets."a:b"]\nkind = "webhook"', "no colon"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_said_with_its_place(write, wrong):
    text, said = WRONG[wrong]
    path = write(text)
    with pytest.raises(ConfigError) as refused:
        load(path)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert re.search(said, message), message
    assert SECRET not in message
    assert "\n" not in message


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    for path in (tmp_path / "no.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            load(path)


def test_the_example_of_the_guide_is_read(write, tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "outlets.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for name in ("SHOP_SECRET", "SHOP_SECRET_BEFORE", "LEDGER_AUTHORIZATION"):
        monkeypatch.setenv(name, SECRET)
    path, _ = authority(tmp_path, "our-ca")
    assert path.name == "our-ca.pem"
    assert [configured.name for configured in load(write(example))] == ["shop", "ledger"]


@pytest.mark.parametrize(
    "wrong",
    ["htps://u:hush@a", "https//u:hush@a", "https:/u:hush@a", "u:hush@a:1", "https://u:hush@a:x/", "https://u:hush@[::1/",
     "https://u:hu@hush@a/ b", "https://a/ b?hush", "https://u:hush/hush@a/ b"],
)  # fmt: skip
def test_a_url_of_a_variable_is_refused_without_its_password(write, monkeypatch, wrong):
    monkeypatch.setenv("SHOP_URL", wrong)
    for line in ('url_env = "SHOP_URL"', 'allow_to_env = ["SHOP_URL"]'):
        with pytest.raises(ConfigError) as refused:
            load(write(ONE + line))
        assert "hush" not in str(refused.value)


def test_authorities_may_have_comments_in_any_letters(write, tmp_path):
    path, _ = authority(tmp_path, "ca")
    path.write_text("# F\u0151tan\u00fas\u00edtv\u00e1ny\n" + path.read_text(), encoding="utf-8")
    assert load(write(ONE + 'ca_file = "ca.pem"'))


def test_options_of_kafka_come_from_a_file_of_lines(write, tmp_path):
    (tmp_path / "kafka.properties").write_text("security.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    [configured] = load(write('[outlets.a]\nkind = "kafka"\nservers = "a:1"\noptions_file = "kafka.properties"'))
    assert configured.outlet._options.items() >= {("security.protocol", "SASL_SSL"), ("sasl.password", "a=b")}
