"""The notes of processes, line by line; a line is written by one call and survives its process."""

import os

__all__ = ["Noted", "noting"]


def noting(path):
    """Return a function that writes a line of a word and facts."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(word, *facts):
        os.write(file, f"{' '.join(map(str, (word, *facts)))}\n".encode())

    return note


class Noted:
    """A file of such lines; each begins with a word that says what happened."""

    def __init__(self, path):
        self.path = path

    def lines(self, word):
        """Return what follows a word, split, of each of its lines; [] before the file is there."""
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [word]]
