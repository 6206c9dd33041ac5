"""Stand-ins for rings in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class OwnRing:
    """Stands in for memory of a GPU: a file that both sides know."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed = False
        path.write_bytes(bytes(1024))

    def handle(self) -> bytes:
        return str(self.path).encode()

    def write(self, offset: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def close(self) -> None:
        self.closed = True


class MappedFile:
    def __init__(self, handle: bytes) -> None:
        self.path = Path(handle.decode())
        self.closed = False

    def read(self, offset: int, size: int) -> bytes:
        return self.path.read_bytes()[offset : offset + size]

    def side_by_side(self, parts: Sequence[bytes], rows: int) -> bytes:
        size = len(parts[0]) // rows
        return b"".join(part[row * size : (row + 1) * size] for row in range(rows) for part in parts)

    def close(self) -> None:
        self.closed = True
