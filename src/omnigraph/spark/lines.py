"""The parts of files -> the numbers of their first lines, counted when somebody must be told a line and not before."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.exec.load.parts import Part, pieces_of
from omnigraph.spark.runner import PartTasks, refuse
from omnigraph.spark.tasks import Payload
from omnigraph.spark.work import Job


class Lines:
    """Counts the lines of a file's parts with one Spark job, at the first question about that file."""

    def __init__(self, runner: PartTasks, job: Job, parts: Sequence[Part]) -> None:
        self._runner = runner
        self._job = job
        self.parts = tuple(parts)
        self._firsts: dict[str, dict[int, int]] = {}

    def numbered(self, part: Part) -> Part:
        """A part with the number of its first line. Where it begins, a part or a block of one begins."""
        if part.start == 0:
            return part
        if part.path not in self._firsts:
            self._firsts[part.path] = self._count(part.path)
        return msgspec.structs.replace(part, first_line=self._firsts[part.path][part.start])

    def _count(self, path: str) -> dict[int, int]:
        parts = tuple(part for part in self.parts if part.path == path)
        replies = self._runner.on_parts("count", Payload(self._job, parts))
        refuse(replies)
        firsts, line = {}, 1
        for part, reply in zip(parts, replies, strict=True):
            for piece, lines in zip(pieces_of(part), reply.lines, strict=True):
                firsts[piece.start] = line
                line += lines
        return firsts
