"""The end of each command's ``--help``: examples and remarks."""

from __future__ import annotations

from typing import Final

_OF: Final[dict[str, str]] = {
    "put": """
  pywheel put mail '{"to": 5}'                   # due at once
  pywheel put mail '{"to": 5}' --delay 30m       # or 90, seconds; 1h 30m; 2d
  pywheel put report --at 2030-01-31T06:00:00+01:00
  pywheel put close '{"order": 7}' -d 30m -k order-7 --replace
  pywheel put note hello --text
  pywheel put image --file photo.jpg
  pywheel put notify '{"paid": true}' --to https://shop.example/hook -H tenant=acme
  pywheel put mail --lines --file mails.jsonl    # JSON Lines: a job a line
  curl -s https://shop.example/feed | pywheel put feed -""",
    "show": """
  pywheel show 12
  pywheel show order-7 --topic close --json | jq .state""",
    "cancel": """
  pywheel cancel 12
  pywheel cancel order-7 --topic close""",
    "reschedule": """
  pywheel reschedule 12 --delay 1h
  pywheel reschedule order-7 --topic close --at 2030-01-31T06:00:00+01:00""",
    "edit": """
  pywheel edit 12 '{"order": 8}' --priority 5
  pywheel edit order-7 --topic close --delay 1h -H tenant=acme""",
    "retry": """
  pywheel retry 12                               # due at once
  pywheel retry order-7 --topic close --delay 10m""",
    "delete": """
  pywheel delete 12
  pywheel delete order-7 --topic close""",
    "history": """
  pywheel history 12                             # an attempt a line: when, by whom, the error
  pywheel history order-7 --topic close --json | jq '.[-1].error'""",
    "list": """
  pywheel list --topic notify --state dead --error 502
  pywheel list --due-until 1h                    # within the next hour, and what is late
  pywheel list --json | jq '.[].id'
  pywheel list | cut -f1,5                       # in a pipe: tabs, nothing cut; the first line says what is what""",
    "counts": """
  pywheel counts
  pywheel counts --json | jq '.mail.dead'""",
    "purge": """
  pywheel purge --older-than 7d --dry-run
  pywheel purge --state dead --topic notify --yes""",
    "pause": """
  pywheel pause notify
  pywheel resume notify""",
    "limit": """
  pywheel limit notify --limit 5 --rate 100/m    # whatever its code says, until told otherwise
  pywheel limit notify --limit 1 --per :         # one at once of each group: of keys that begin with the same x:
  pywheel limit sms --rate 100/m --create        # before the first job is put
  pywheel limit notify --none                    # as many as its workers can
  pywheel limit notify --as-code                 # as its code says again
  pywheel limit notify                           # what was set""",
    "work": """
  pywheel work shop.jobs:queue
  pywheel work shop.jobs:queue --topics mail,close --grace 5s
  pywheel work shop.jobs:queue --processes 4     # kept alive; SIGHUP replaces them one by one
  pywheel work shop.jobs:queue --reload          # while you write it; breakpoint() works only without it
  pywheel work shop.jobs:queue --log-format json --metrics-port 9091
  pywheel work shop.jobs:queue --store sqlite:////var/lib/shop/jobs.db --keep 7d""",
    "serve": """
  pywheel serve --open                                        # to try it: http://127.0.0.1:8080, for this host only
  pywheel token add --scope put,work && pywheel serve         # with tokens, still for this host only
  pywheel serve --store postgresql://shop@db/shop --host 0.0.0.0 --port 80
  pywheel serve shop.jobs:queue --work                        # with the queue's handlers at work in the same process
  pywheel serve --read-only                                   # a window for those who only look
  curl -s localhost:8080/v1/jobs -H 'content-type: application/json' -d '{"topic": "mail", "delay": "30m"}'""",
    "deliver": """
  pywheel deliver --store sqlite:////var/lib/shop/jobs.db --config outlets.toml --check
  pywheel deliver --store sqlite:////var/lib/shop/jobs.db --config outlets.toml

\b
outlets.toml:
  [outlets.shop]
  kind = "webhook"
  topics = ["shop.notify"]
  secrets_env = "SHOP_SECRET"          # or secrets_file; two of them during a rotation
  retry = ["5s", "30s", "5m", "1h"]""",
    "bridge rabbitmq": """
  pywheel bridge rabbitmq pywheel --exchange orders.delayed --topic orders
  PYWHEEL_BROKER=amqp://shop:secret@mq/shop pywheel bridge rabbitmq pywheel --topic orders

A message says when by a header: x-delay (ms, as for the delayed-message plugin), pywheel-delay (seconds, or 30m), or
pywheel-at (ISO 8601 with a time zone).""",
    "bridge kafka": """
  pywheel bridge kafka delayed --servers kafka-1:9092,kafka-2:9092 --topic orders --to orders

A record says when by the same headers as a message of RabbitMQ; a delay counts from the record's time.""",
    "workers": """
  pywheel workers                                # who works on this store, on all its hosts
  pywheel workers --json | jq '.[].topics'""",
    "workers quiet": """
  pywheel workers quiet app1:4711
  pywheel workers resume app1:4711""",
    "workers stop": """
  pywheel workers stop app1:4711""",
    "info": """
  pywheel info
  pywheel info --store redis://cache/0 --json | jq .durability""",
    "migrate": """
  pywheel migrate --store postgresql://owner@db/shop
  pywheel migrate --store postgresql://shop@db/shop --sql > pywheel.sql""",
    "vacuum": """
  pywheel vacuum                                 # best after: pywheel purge --older-than 7d --yes""",
    "backup": """
  pywheel backup /backup/jobs.db                 # while others work
  pywheel counts --store sqlite:////backup/jobs.db""",
    "check": """
  pywheel check && echo sound                    # the file; `pywheel verify` looks at what the jobs say""",
    "verify": """
  pywheel verify                                 # beside running workers
  pywheel verify --store redis://cache.internal/0 --json | jq .
  pywheel verify --repair                        # after reading what it would do""",
    "copy": """
  pywheel copy sqlite:///jobs.db postgresql://shop@db/shop --dry-run
  pywheel copy sqlite:///jobs.db postgresql://shop@db/shop            # beside producers and workers; again and again
  pywheel copy sqlite:///jobs.db postgresql://shop@db/shop --switch   # pauses FROM, and goes over to TO

Ended in the middle, by whatever, the same command goes on where it was: nothing is there twice, nothing is missing.
Passwords come best from a file, ?password_file=..., as arguments can be read by everybody on the host.""",
    "new-key": """
  pywheel new-key > keys                         # id:base64, the id is today
  pywheel new-key 2026-12 | cat - keys > keys.new && mv keys.new keys    # the first one encrypts, all decrypt
  PYWHEEL_KEYS="$(cat keys)" pywheel put mail '{"to": 5}'""",
    "rekey": """
  pywheel rekey --keys-file keys --store sqlite:///jobs.db

Before it, give the new key to everybody who reads: see docs/encryption.md. Jobs that cannot be read, as their key is
not in the file, stay as they are, and are counted.""",
    "outlets": """
  pywheel outlets
  pywheel outlets --json | jq '.[] | select(.disabled) | .target'""",
    "outlets enable": """
  pywheel outlets enable shop
  pywheel outlets enable shop --target https://shop.example/hook
  pywheel retry-many --topic shop.notify --error "is disabled"     # what came meanwhile

Workers know it some seconds later.""",
    "schedules list": """
  pywheel schedules list
  pywheel schedules list --json | jq '.[] | select(.paused) | .name'

The outcome is that of the last tick: a job's state, or skipped; nothing if its job is forgotten, or never was.""",
    "schedules pause": """
  pywheel schedules pause report
  pywheel schedules resume report""",
    "schedules run": """
  pywheel schedules run report                   # once more than planned, now""",
    "schedules remove": """
  pywheel schedules remove report""",
    "spool show": """
  pywheel spool show --spool sqlite:////var/lib/shop/spool.db
  pywheel spool show --json | jq .refused

A job waits, is being sent, or was refused by the store. A process that was killed a moment ago may leave a job as being
sent. A refused job has its error and stays here until you retry or delete it. Ids are those that put returned.""",
    "spool drain": """
  pywheel spool drain --store postgresql://shop@db/shop --spool sqlite:////var/lib/shop/spool.db

Programs whose queue has this spool do the same by themselves: this is for what a program left that runs no more. Both
at once do no harm.""",
    "spool retry": """
  pywheel spool retry -5                         # -5: what put returned""",
    "spool delete": """
  pywheel spool delete -5""",
    "token add": """
  pywheel token add --scope put,work --topics 'shop.*' --until 2027-01-01 --note "shop backend"
  pywheel token add --role operator --until 90d --note "Kim, on call"
  TOKEN=$(pywheel token add --scope read)
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/v1/topics

Scopes: read looks; put puts, cancels, reschedules and retries one job; work reserves and settles; admin does all of
that, deletes, pauses, and changes many. Roles of the page: viewer is read, operator is read and put, admin is admin.
The token is printed alone, once: the store has no more than its hash.""",
    "token list": """
  pywheel token list
  pywheel token list --json | jq '.[].note'""",
    "token remove": """
  pywheel token remove 5f0c3b9a7d21              # its id, as `pywheel token list` has it
  pywheel token remove pw_5f0c3b9a7d21           # or what a token that was found begins with: the id is part of it
  pywheel token remove --note "shop backend"     # all with this note

Servers refuse it within 5 seconds. If a token is lost, remove it, and add another one.""",
}  # fmt: skip
_OF["resume"], _OF["schedules resume"] = _OF["pause"], _OF["schedules pause"]
_OF["workers resume"] = _OF["workers quiet"]
_BULK: Final = """
  pywheel {name} --topic notify --dry-run
  pywheel {name} --topic notify --error 502 --yes
  pywheel {name} --due-from 1d                   # due in a day or later"""
_OF.update({name: _BULK.format(name=name) for name in ("cancel-many", "retry-many", "delete-many")})


def examples(command: str) -> str:
    """Return the end of a command's help."""
    return f"\b\nExamples:{_OF[command]}\n"
