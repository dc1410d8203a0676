"""What ``--help`` of a command shows as examples, for those that say no more than these."""

from __future__ import annotations

from typing import Final

__all__ = ["examples"]

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
    "work": """
  pywheel work shop.jobs:queue                   # with a live view on a terminal, with log lines elsewhere
  pywheel work shop.jobs:queue --topics mail,close --grace 5s
  pywheel work shop.jobs:queue --processes 4     # kept alive; SIGHUP replaces them one by one
  pywheel work shop.jobs:queue --reload          # while you write it
  pywheel work shop.jobs:queue --log-format json --metrics-port 9091
  pywheel work shop.jobs:queue --store sqlite:////var/lib/shop/jobs.db --keep 7d""",
    "workers": """
  pywheel workers                                # who works on this store, on all its hosts
  pywheel workers --json | jq '.[].topics'""",
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
    "demo": """
  pywheel demo
  pywheel demo --jobs 1000 --seconds 3""",
    "version": """
  pywheel version""",
    "schedules pause": """
  pywheel schedules pause report
  pywheel schedules resume report""",
    "schedules run": """
  pywheel schedules run report                   # once more than planned, now""",
    "schedules remove": """
  pywheel schedules remove report""",
    "spool retry": """
  pywheel spool retry -5                         # -5: what put returned""",
    "spool delete": """
  pywheel spool delete -5""",
    "token list": """
  pywheel token list
  pywheel token list --json | jq '.[].note'""",
}  # fmt: skip
_OF["resume"], _OF["schedules resume"] = _OF["pause"], _OF["schedules pause"]
_BULK: Final = """
  pywheel {name} --topic notify --dry-run
  pywheel {name} --topic notify --error 502 --yes
  pywheel {name} --due-from 1d                   # due in a day or later"""
_OF.update({name: _BULK.format(name=name) for name in ("cancel-many", "retry-many", "delete-many")})


def examples(command: str) -> str:
    """Return the end of a command's help."""
    return f"\b\nExamples:{_OF[command]}\n"
