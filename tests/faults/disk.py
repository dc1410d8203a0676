"""The possible contents of a disk after a power failure: all synced data, and some of the rest.

A file's own data: each sector has the data of one of its writes since the last sync, whatever the other sectors have,
or, if it was being written, nonsense. A name: the result of one of the changes since the last sync of its folder. File
systems promise more than that, and SQLite asks for no more.
"""

from pathlib import Path

SECTOR = 512
PAGE = 4096
MAPPED = ("-shm", "-workers")  # files that are written through memory, never synced, and may hold anything older


class Inode:
    """A file's data: what is on the disk, and what is on its way."""

    def __init__(self, durable=b""):
        self.durable = bytearray(durable)
        self.pending = []  # (offset, data), or (size, None) where it was truncated

    def sync(self):
        for change in self.pending:
            apply(self.durable, *change)
        self.pending.clear()

    def after_failure(self, dice, *, kept=False):
        """Return what may be there: all that was written if it is `kept`."""
        data, changes = bytearray(self.durable), self.pending
        if not changes:
            return data
        way = "all" if kept else dice.choice(("none", "all", "first", "some", "torn", "torn"))
        if way == "torn":
            return self._torn(dice, data)
        first = dice.randint(0, len(changes))
        for place, change in enumerate(changes):
            if way == "all" or (way == "first" and place < first) or (way == "some" and dice.random() < 0.5):
                apply(data, *change)
        return data

    def _torn(self, dice, data):
        """Write of each sector all that was written up to some moment."""
        count = len(self.pending)
        until = {}  # sector: the first write that did not reach it; None: the file's size
        for place, (offset, written) in enumerate(self.pending):
            if written is None:
                if place < until.setdefault(None, dice.choice((0, count, dice.randint(0, count)))):
                    apply(data, offset, None)
                continue
            for start, end in sectors(offset, len(written)):
                sector = start // SECTOR
                if sector not in until:
                    until[sector] = dice.choice((0, count, dice.randint(0, count)))
                part = written[start - offset : end - offset]
                if place < until[sector]:
                    apply(data, start, part)
                elif dice.random() < 0.02:
                    apply(data, start, dice.randbytes(end - start))
        return data


class Disk:
    """One folder, as calls change it. `kept` are the beginnings of names of files on another, whose power stays on."""

    def __init__(self, folder, kept=()):
        self._folder = str(folder)
        self._kept = tuple(kept)
        self._seen = {}  # name of a mapped file: what it was seen to hold, at several moments
        self._names = {path.name: Inode(path.read_bytes()) for path in Path(folder).iterdir()}
        self._durable = dict(self._names)
        self._changes = {}  # name: what it has named since the folder was synced, in order

    def do(self, call):
        """Let a call happen."""
        name = Path(call.path).name
        if call.path == self._folder:
            if call.kind == "s":
                self._durable = dict(self._names)
                self._changes.clear()
        elif call.kind == "m":
            if name:
                self._seen.setdefault(name, []).append(call.data)
        elif call.kind in "curl":
            self._rename(call, name)
        elif inode := self._names.get(name):  # else it has no name any more: nobody will read it
            if call.kind == "s":
                inode.sync()
            elif call.kind in "wt":
                inode.pending.append((call.offset, call.data if call.kind == "w" else None))

    def _rename(self, call, name):
        if call.kind in "rl":
            self._name(Path(call.data.decode()).name, self._names[name])
        if call.kind != "l":
            self._name(name, Inode() if call.kind == "c" else None)

    def _name(self, name, inode):
        self._changes.setdefault(name, []).append(inode)
        if inode is None:
            self._names.pop(name, None)
        else:
            self._names[name] = inode

    def fail(self, dice, folder):
        """Write into an empty folder what may be there after a power failure now."""
        for name in {**self._durable, **self._names}:
            kept = name.startswith(self._kept)
            inode = self._names.get(name) if kept else self._named(dice, name)
            if inode is None:
                continue
            data = self._mapped(dice, name) if name.endswith(MAPPED) else inode.after_failure(dice, kept=kept)
            if data is not None:
                (Path(folder) / name).write_bytes(data)

    def _named(self, dice, name):
        before = self._durable.get(name)
        changes = self._changes.get(name, [])
        return dice.choice((before, *changes, changes[-1])) if changes else before

    def _mapped(self, dice, name):
        """Return what a mapped file may hold: each page what it held at one of the moments that were noted."""
        seen = self._seen.get(name, [b""])
        way = dice.choice(("none", "zeros", "old", "mixed", "noise" if name.endswith("-shm") else "mixed"))
        whole = bytearray(dice.choice(seen[-5:]))
        if way == "none":
            return None
        if way == "zeros":
            return bytes(len(whole))
        if way == "noise":
            return dice.randbytes(32768)
        if way == "mixed":
            for start in range(0, len(whole), PAGE):
                whole[start : start + PAGE] = dice.choice((*seen[-5:], bytes(len(whole))))[start : start + PAGE]
        return whole


def apply(data, offset, written):
    """Write into a file's data, or without anything written, cut or lengthen them."""
    if written is None:
        del data[offset:]
        data.extend(bytes(offset - len(data)))
        return
    data.extend(bytes(max(offset - len(data), 0)))
    data[offset : offset + len(written)] = written


def sectors(offset, size):
    """Yield where each piece of a write begins and ends that lies within one sector."""
    end = offset + size
    while offset < end:
        border = min((offset // SECTOR + 1) * SECTOR, end)
        yield offset, border
        offset = border
