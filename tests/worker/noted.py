"""The notes of processes, line by line; a line is written by one call and survives its process."""

__all__ = ["Noted"]


class Noted:
    """A file of such lines; each begins with a word that says what happened."""

    def __init__(self, path):
        self.path = path

    def lines(self, word):
        """Return what follows a word, split, of each of its lines; [] before the file is there."""
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [word]]
