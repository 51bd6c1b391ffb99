"""What the user's own files hold: a digest that follows their bytes, whatever their times say."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files


class Contents:
    """Digests of files, each file hashed once for as long as nobody writes to it.

    What was hashed is remembered by inode, size and times (`atomic_files.stamp`), so that a plan
    over large files stays fast; and the last digest under each name, for when the files are gone.
    """

    def __init__(self, memory: Path) -> None:
        """Opens the memory.

        Args:
            memory: JSON file of what was hashed; without it all is hashed again.
        """
        self._memory = memory
        self._known: dict[str, object] = {}
        with contextlib.suppress(InputError):
            found = atomic_files.read_json(memory)
            self._known = found if isinstance(found, dict) else {}

    def digest(self, name: str, paths: Sequence[str]) -> object:
        """Digest of the names and bytes of files; None of no files.

        Where one is gone it is the last digest: what was made of the files stands without them.

        Args:
            name: What the files are for; no path.
            paths: The files.
        """
        if not paths:
            return None
        if not all(Path(path).is_file() for path in paths):
            return self._known.get(name)
        before = dict(self._known)
        self._known[name] = atomic_files.digest(
            [[path, self._sha256(Path(path))] for path in paths]
        )
        if self._known != before:
            # A disk that cannot be written costs time at the next plan and no truth.
            with contextlib.suppress(OSError):
                atomic_files.write_json(self._memory, self._known)
        return self._known[name]

    def _sha256(self, path: Path) -> object:
        place, stamp = str(path.absolute()), list(atomic_files.stamp(path))
        known = self._known.get(place)
        if not (isinstance(known, list) and known[:-1] == stamp):
            known = [*stamp, atomic_files.sha256(path)]
            self._known[place] = known
        return known[-1]
