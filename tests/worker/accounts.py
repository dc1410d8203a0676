"""The accounting of a ledger: the answers that producers got, the starts and ends of handlers, and the store's history.

How long a job waits. A job is *to be had* from when it was due, or its last claim ended, until it was claimed: both are
the store's own times. A worker *has room* for its topic from its first turn after its announcement until it is told to
go, dies, or is stopped, while fewer handlers of the topic are between their start and their end than it may run at
once. Jobs that are claimed and wait in its pool take no room here, so that a worker that claims more than it starts is
not excused. The wait is the longest time without a gap in which a job is to be had and some worker has room for it. A
handler notes its start some ms after its claim, and its end before its ack: rooms come out a little larger than they
were. Gaps are the times at which the topic was paused, and those at which nobody could do anything, as the watchdog saw
it: the machine gave it no turn, or a process was stopped in the middle of a transaction on the file. The time that a
runnable thread waited for a processor meanwhile is taken off: the machine causes it, and a quiet one little of it. So
are the times in which the watchdog's own syncs took long: a commit beside them does.
Isolated handlers are left out: their processes begin, and end with what hangs, and no line says when.

A job whose last claim was lost while its handler ran may have killed its process. Such jobs are tried one after the
other, so each may wait for those that wait with it.
"""

from collections import Counter, defaultdict
from itertools import pairwise

from pywheel.jobs import Outcome, State
from tests.worker.intervals import NEVER, crowded, less, longest, union
from tests.worker.ledger import BACKOFF, ISOLATED, LIMIT, LIMITED, TTR, lines
from tests.worker.lives import Life

__all__ = ["Accounts"]

PATIENCE = 1_000  # ms that a job may wait while somebody has room, beside the longest of its leases that was lost
SILENCE = 750  # ms more for each worker but the first that dies or is stopped meanwhile: each may have been the owner
TRIAL = 250  # ms that one who may have killed its process keeps the others of that kind waiting
AFTER_STARVING = 500  # ms that everybody needs to get going again
AFTER_HELD = 300  # ms that everybody needs once a file is free again
AFTER_AWAY = 1_500  # ms that everybody needs to find a server that was away
SLOW = 100  # ms that a call took: then an ack may come too late for a handler that took nearly all of its ttr
FREED = 500  # ms in which a place under a limit that is free may be another's
BEGUN = 100  # ms that a claim may be dated too early: before its statement, or its transaction, began
AROUND = "kills stops continues drains pauses resumes dies ready deletes busy away held".split()
HITS = 2  # attempts that who is innocent may lose to one who kills its process: see worker.suspects


class Accounts:
    """All that is to be compared. `wrong` says what does not agree; `report` gives the figures."""

    def __init__(self, path, queue, *, patience=PATIENCE, silence=SILENCE, excuses=True):
        self.words = lines(path)
        if not excuses:  # whatever the machine did
            self.words |= {"starved": [], "kept": [], "disk": []}
        self.patience, self.silence = patience, silence
        self.keeps_limits = queue.store.keeps_limits  # several stores do not
        self.wrong = []
        self.jobs = {job.id: job for job in queue.jobs.list(limit=10**6)}
        self.history = {id: queue.jobs.history(id) for id in self.jobs}
        self.attempts = {(id, row.claim): row for id, rows in self.history.items() for row in rows}
        self.starts = defaultdict(list)
        for line in self.words["start"]:
            self.starts[line["id"]].append(line)
        self.ends = {(line["id"], line["claims"]): line["wall"] for line in self.words["end"]}
        self.starved = union([(line["since"], line["wall"] + AFTER_STARVING) for line in self.words["starved"]])
        self.away = union([(line["since"], line["wall"] + AFTER_AWAY) for line in self.words["away"]])
        self._lives()
        self.held = union([(line["since"], line["wall"] + AFTER_HELD) for line in self.words["held"]])
        self.excused = union([*self.starved, *self.held, *self.away])
        self.silences = sorted(line["wall"] for word in ("kills", "dies", "stops") for line in self.words[word])
        self.slow = union(
            (line["at"], line["wall"]) for line in self.words["told"] if excuses and line["wall"] - line["at"] > SLOW
        )
        self.slow_disk = union([(line["since"], line["wall"]) for line in self.words["disk"]])
        self.waits = []
        self._puts()
        self._ends()
        self._times()
        self._claims()
        self._bodies()
        self._limits()
        self._pauses()
        self._innocents()
        self._waits()

    def blame(self, kind, text):
        self.wrong.append(f"{kind}: {text}")

    # ---- processes --------------------------------------------------------------------------------------------------

    def _lives(self):
        self.lives = {line["pid"]: Life(line) for line in self.words["comes"] if "topics" in line}
        for word in ("ready", "drains", "kills", "dies", "stopped", "continues"):
            for line in self.words[word]:
                life = self.lives.get(line.get("who", line["pid"]))
                if life is not None:
                    life.learn(line)
        for _, line, _, life, end in self._began():
            if life is not None:
                life.runs[line["topic"]].append((line["wall"], min(end, life.died)))

    def _began(self):
        """Yield of each handler that began: the id, the line, its claim in the history, its process, and its end."""
        for id, starts in self.starts.items():
            for line in starts:
                receipt = id, line["claims"]
                yield id, line, self.attempts.get(receipt), self.lives.get(line["pid"]), self.ends.get(receipt, NEVER)

    # ---- what producers were told -----------------------------------------------------------------------------------

    def _told(self, what):
        """Return what was answered well, in order."""
        return [line for line in self.words["told"] if line["what"] == what and line["outcome"] not in (None, False)]

    def _put_jobs(self):
        """Return each job that was put and confirmed: its line, its number, its delay and its id."""
        for line in self._told("put"):
            ids = line["outcome"] if isinstance(line["outcome"], list) else [line["outcome"]]
            for (n, delay), id in zip(line["jobs"], ids, strict=True):
                yield line, n, delay, id

    def _puts(self):
        """Every put that was confirmed is there once, and every job that is there was put."""
        told = {(line["by"], n): id for line, n, _, id in self._put_jobs()}
        asked = {(line["by"], n) for line in self.words["ask"] if line["what"] == "put" for n, _ in line["jobs"]}
        refused = {
            (line["by"], line["n"])
            for word in ("refused", "error")
            for line in self.words[word]
            if line["what"] == "put" and "not known" not in line.get("error", "")
        }
        there = defaultdict(list)
        for job in self.jobs.values():
            body = job.json()
            there[body["by"], body["n"]].append(job.id)
        for name, ids in there.items():
            if len(ids) > 1:
                self.blame("put twice", f"{name} is {ids}")
            if name not in asked or name in refused:
                self.blame("unexpected", f"{name} was never put, or refused: {ids}")
        for id in self.starts.keys() - self.jobs.keys():
            self.blame("unexpected", f"job {id} was started and is not there")
        self.confirmed = set(told.values())
        self.unconfirmed = set(self.jobs) - self.confirmed

    def _ends(self):
        """Each job that was confirmed came to its end, and was handled unless it was cancelled."""
        self.cancelled = {line["id"]: line["wall"] for line in self._told("cancel")}
        asked = {line["id"] for line in self.words["ask"] if line["what"] == "cancel"}
        answered = {line["id"] for line in self.words["told"] if line["what"] == "cancel"}
        may_be_cancelled = self.cancelled.keys() | (asked - answered)
        for id in self.confirmed:
            job = self.jobs.get(id)
            if job is None:
                self.blame("lost", f"job {id} is gone")
            elif job.state is State.CANCELLED:
                if id not in may_be_cancelled:
                    self.blame("unexpected", f"job {id} is cancelled, and nobody asked for it")
            elif job.state is State.DONE:
                done = [row for row in self.history[id] if row.outcome is Outcome.DONE]
                if len(done) != 1 or (id, done[0].claim) not in self.ends:
                    self.blame("lost", f"job {id} is done without having been handled")
            elif job.state is not State.DEAD or job.json()["do"] not in ("exit", "kill"):
                self.blame("lost", f"job {id} is {job.state} after all")

    def _times(self):
        """Nothing begins before it is due, nor after a confirmed cancel."""
        dues, unsure = self._dues(), self._unsure()
        for id, line, row, life, _ in self._began():
            if line["wall"] + 1 < line["due"]:
                self.blame("early", f"job {id} began {line['due'] - line['wall']:.0f} ms before it was due")
            if row is not None and row.started is not None and id not in unsure and dues[id]:
                # Before the first answer came, the first due time held already. One under way may hold.
                last = [due for told, _, due in dues[id] if told <= row.started or told == dues[id][0][0]][-1]
                due = min([last, *(due for told, asked, due in dues[id] if asked <= row.started < told)])
                if row.started + 2 < due:
                    self.blame("early", f"job {id} was claimed {due - row.started:.0f} ms before it was due")
            late = line["wall"] - self.cancelled.get(id, NEVER)
            if late > 0 and (life is None or not life.stopped(row.started if row else 0, line["wall"])):
                self.blame("cancelled", f"job {id} began {late:.0f} ms after its cancel")

    def _dues(self):
        """Return for each job when an answer came, when it was asked for, and the earliest due time by it, in order."""
        dues = defaultdict(list)
        for line, _, delay, id in self._put_jobs():
            dues[id].append((line["wall"], line["at"], line["at"] + delay * 1000))
        for line in self._told("reschedule"):
            dues[line["id"]].append((line["wall"], line["at"], line["at"] + line["delay"] * 1000))
        for found in dues.values():
            found.sort()
        return dues

    def _unsure(self):
        """Return the jobs with a change that was not answered: it may have happened. And those that were replaced."""
        answered = {(line["by"], line["at"]) for line in self.words["told"]}
        asked = [line for line in self.words["ask"] if (line["by"], line["at"]) not in answered]
        return {line.get("id") for line in asked} | {
            line["outcome"] for line in self._told("put") if line.get("replace")
        }

    # ---- claims -----------------------------------------------------------------------------------------------------

    def _claims(self):
        """Each delivery but the last ended as a failed attempt or a lost claim, and only then came the next."""
        seen = set()
        for id, line, row, life, end in self._began():
            if (id, line["claims"]) in seen:
                self.blame("twice", f"claim {line['claims']} of job {id} began twice")
            seen.add((id, line["claims"]))
            if row is None:
                self.blame("unexpected", f"job {id} began without a claim: {line}")
            else:
                self._run(id, line, row, life, end)
        for id in self.starts:
            for one, after in pairwise(self.history.get(id, [])):
                if one.outcome is Outcome.DONE or one.ended is None:
                    self.blame("twice", f"job {id} was claimed again after {one}")
                elif after.started is not None and after.started + self._early(one, after) < one.ended:
                    self.blame("overlap", f"job {id}: {one} and {after}")

    def _early(self, one, after):
        """Return how many ms a claim may be dated too early: before its transaction began."""
        free_at_once = one.outcome in (Outcome.RELEASED, Outcome.LOST)
        return BEGUN + self._kept(after.started, one.ended) if free_at_once else 0

    def _run(self, id, line, row, life, end):
        if row.outcome is Outcome.RELEASED and (life is None or life.told_to_go > row.ended):
            self.blame("released", f"job {id} was given back while its handler ran: {row}")
        self._begins_in_time(id, line, row, life)
        others = [other for other in self.starts[id] if other["claims"] != line["claims"]]
        for other in others:
            if line["wall"] < other["wall"] < min(end, row.ended or NEVER):
                self.blame("overlap", f"job {id} began again while its claim {line['claims']} held: {other}")
        if row.outcome is Outcome.LOST and end - line["wall"] <= TTR * 1000 and life is not None:
            # The ack has the slack to get there: 250 ms, unless its process was stopped, died, or had no turn.
            excused = life.died <= row.ended or life.stopped(row.started, row.ended + 1)
            excused |= longest(self.excused, row.started, row.ended)[0] > 0
            excused |= end < NEVER and longest(self.slow, end, row.ended)[0] > 0
            excused |= end < NEVER and self._kept(end, row.ended) > SLOW
            excused |= self._kept(row.started, line["wall"]) > SLOW
            if not excused:
                took = f"after {end - line['wall']:.0f} ms, claimed {line['wall'] - row.started:.0f} ms before"
                self.blame(
                    "lost lease", f"job {id} lost claim {row.claim} of {row.worker} though it ended {took}: {row}"
                )

    def _begins_in_time(self, id, line, row, life):
        """A handler begins while its claim holds; that of an isolated one also while its worker is stopped."""
        if (
            row.ended is None
            or line["wall"] <= row.ended + 1 + self._kept(row.started, line["wall"])
            or longest(self.excused, row.started, line["wall"])[0] > 0
        ):
            return
        if line["topic"] == ISOLATED or life is None or not life.stopped(row.started, line["wall"]):
            self.blame("too late", f"job {id} began {line['wall'] - row.ended:.0f} ms after its claim: {row}")

    def _bodies(self):
        """A claim brings the body that the last put left that had returned, or that of one under way."""
        puts, unsure = defaultdict(list), defaultdict(set)  # by id: asked, told, number; by author and key: numbers
        keys, answered = {}, set()
        for line, n, _, id in self._put_jobs():
            puts[id].append((line["at"], line["wall"], (line["by"], n)))
            answered.add((line["by"], n))
            keys.setdefault(id, line.get("key", ()))
        for line in self.words["ask"]:
            if line["what"] == "put" and (line["by"], line["n"]) not in answered:
                edits = [line["id"]] if "id" in line else []
                unsure[line["by"], *line.get("key", edits)].add((line["by"], line["n"]))
        for id, found in puts.items():
            found.sort()
            for line in self.starts[id]:
                row = self.attempts.get((id, line["claims"]))
                if row is None or row.started is None:
                    continue
                last = max((at for at, told, _ in found if told <= row.started), default=0)
                may_be = {number for at, _, number in found if last <= at <= line["wall"]}
                number = (line["author"], line["n"])
                if number not in may_be | unsure[number[0], *keys[id]] | unsure[number[0], id]:
                    self.blame("old body", f"job {id} began with {number}, and was put with {found}")

    def _limits(self):
        """No more of a group run at once than its limit says, at any moment."""
        claims, runs = defaultdict(list), defaultdict(list)
        for _, line, row, life, end in self._began():
            if line["topic"] != LIMITED or row is None or ":" not in (line["key"] or ""):
                continue
            end = min(end, row.ended or NEVER, life.died if life else NEVER)
            if row.outcome is Outcome.LOST and life is not None:
                # Stopped within a transaction that renews a lease, it commits that when it goes on: until then others
                # see the lease before.
                end = min([end, *(since for since, until in life.stops if line["wall"] < until and since < end)])
            group = line["key"].partition(":")[0]
            runs[group].append((line["wall"], end))
            claims[group].append((row.started, (row.ended or NEVER) + FREED))
        for group, found in runs.items() if self.keeps_limits else ():
            for begin, end in crowded(found, LIMIT + 1):
                self.blame("limit", f"more than {LIMIT} of {group} ran from {begin:.0f} for {end - begin:.1f} ms")
        self.full = {group: crowded(found, LIMIT) for group, found in claims.items()}

    def _pauses(self):
        """Check that jobs of paused topics do not start."""
        paused = defaultdict(list)
        for line in self.words["resumes"]:
            paused[line["topic"]].append((line["asked"], line["wall"]))
            for id, start, _, life, _ in self._began():
                if start["topic"] == line["topic"] and line["paused"] < start["wall"] < line["resumed"]:
                    since = start["wall"] - line["paused"]
                    if life is not None and not life.stopped(line["asked"] - 5000, start["wall"]):
                        self.blame("paused", f"job {id} began {since:.0f} ms after its topic was paused")
        self.paused = {topic: union(intervals) for topic, intervals in paused.items()}

    def _innocents(self):
        """Check that a job that kills its process is dead after its attempts, and costs its neighbours few attempts."""
        hit = defaultdict(list)
        for id, _, row, life, end in self._began():
            if row is None or life is None or life.culprit in (None, id) or row.outcome is not Outcome.LOST:
                continue
            # Who gets no processor may outlast its trial before it does any harm.
            if self._kept(row.started, life.died) < TRIAL and end > life.died and row.ended >= life.died:
                hit[id, life.culprit].append(row)
        for (id, culprit), rows in hit.items():
            if len(rows) > HITS:
                self.blame("innocent", f"job {id} lost {len(rows)} attempts to job {culprit}: {rows}")
        for id, job in self.jobs.items():
            if job.json()["do"] in ("exit", "kill") and job.state is State.DEAD and job.attempt != job.max_attempts:
                self.blame("poison", f"job {id} is dead after {job.attempt} attempts of {job.max_attempts}")

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def _waits(self):
        """No job waits for long while somebody has room for it."""
        rooms = defaultdict(list)
        for life in self.lives.values():
            for topic in life.topics.keys() - {ISOLATED}:
                rooms[topic] += life.rooms(topic)
        self.rooms = {
            topic: less(less(union(found), self.paused.get(topic, [])), self.excused) for topic, found in rooms.items()
        }
        self.suspected = [  # from, until: a job waits whose last claim was lost
            (one.ended, after.started)
            for rows in self.history.values()
            for one, after in pairwise(rows)
            if one.outcome is Outcome.LOST and after.started is not None
        ]
        moved = {line["id"] for line in (*self._told("reschedule"), *self._told("put")) if "id" in line}
        for id, job in self.jobs.items():
            lost = 0
            for before, row, since in self._to_be_had(job, id in moved):
                until = row.ended if row.outcome is Outcome.CANCELLED else row.started
                if before is not None and before.outcome is Outcome.LOST:
                    lost = max(lost, before.ended - before.started)
                if since is not None and until is not None and until > since:
                    self._wait(job, before, row, since, until, lost)

    def _to_be_had(self, job, moved):
        """Return each claim, the one before it, and since when the job was to be had; None if that is not known."""
        dues = {line["claims"]: line["due"] for line in self.starts.get(job.id, ())}
        before = None
        for row in self.history[job.id]:
            due = dues.get(row.claim, job.due if row.outcome is Outcome.CANCELLED else None)
            if before is None:
                if due is None and not moved:
                    due = next((dues[claim] for claim in sorted(dues) if claim > row.claim), None)
                yield before, row, due
            else:
                again = BACKOFF * 1000 if due is None and before.outcome in (Outcome.FAILED, Outcome.LOST) else 0
                yield before, row, max(due or 0, before.ended + again)
            before = row

    def _wait(self, job, before, row, since, until, lost):
        rooms = self.rooms.get(job.topic, [])
        if job.topic == LIMITED:
            rooms = less(rooms, self.full.get((job.key or "").partition(":")[0], []))
        waited, at = longest(rooms, since, until)
        self.waits.append((waited, at, job.id, row.claim, lost))
        patience = self.patience + lost + self._silent(at - waited) - self.silence
        if before is not None and before.outcome is Outcome.LOST:
            patience += TRIAL * sum(begin < until and end > since for begin, end in self.suspected)
        span = at - waited, at
        if waited - self._kept(*span) - self._syncing(*span) > patience:
            text = f"{waited:.0f} ms until {at:.0f}, claim {row.claim}, longest lost lease {lost} ms"
            self.blame("waited", f"job {job.id} of {job.topic}, {text}; {self.around(at - waited, at)}")

    def _kept(self, begin, end):
        """Return for how many ms of this time some thread was kept from running."""
        return sum(
            min(line["ms"] / (line["wall"] - line["since"]), 1) * (min(end, line["wall"]) - max(begin, line["since"]))
            for line in self.words["kept"]
            if line["since"] < end and line["wall"] > begin
        )

    def _syncing(self, begin, end):
        """Return for how many ms of this time a sync took long."""
        return end - begin - sum(until - since for since, until in less([(begin, end)], self.slow_disk))

    def _silent(self, begin):
        """Return for how long from then on, without a gap, some owner may have been silent; the first one is usual."""
        end = begin + self.silence
        for at in self.silences:
            if begin - self.silence < at < end:
                end = max(end, at + self.silence)
        return end - begin

    def around(self, begin, end):
        """Return what happened in a time and shortly before."""
        said = [
            (line["wall"], word, line.get("who") or line.get("topic") or "")
            for word in AROUND
            for line in self.words[word]
            if begin - 1500 <= line["wall"] <= end
        ]
        return ", ".join(f"{word} {who} {at - begin:+.0f}" for at, word, who in sorted(said))

    def report(self):
        """Return some figures of what has happened."""
        outcomes = Counter(str(row.outcome) for rows in self.history.values() for row in rows)
        wait, at, id, claim, lost = max(self.waits, default=(0, 0, 0, 0, 0))
        return {
            "puts": len(self.confirmed),
            "unconfirmed": len(self.unconfirmed),
            **{word: len(self.words[word]) for word in ("start", *AROUND)},
            **outcomes,
            "away ms": round(sum(end - begin for begin, end in self.away)),
            "starved ms": round(sum(end - begin for begin, end in self.starved)),
            "slow disk ms": round(sum(end - begin for begin, end in self.slow_disk)),
            "waited ms while somebody had room": round(wait),
            "the longest": f"job {id} claim {claim}, lost {lost}: {self.around(at - wait, at)}" if id else "",
            "wrong": len(self.wrong),
        }
