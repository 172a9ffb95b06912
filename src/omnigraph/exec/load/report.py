"""Problems as they are found -> the first ones by name, the rest by number."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.exec.problems import REPORTED, Problem, refusal


class Report:
    """What is wrong with the input so far. A reader stops when it is `full`, so `more` counts what was found up to there."""

    def __init__(self, limit: int = REPORTED) -> None:
        self.limit = limit
        self.problems: list[Problem] = []
        self.more = 0

    @property
    def full(self) -> bool:
        """Whether more problems would only be counted."""
        return len(self.problems) >= self.limit

    def add(self, problems: Iterable[Problem]) -> None:
        """Keep these while there is room, count the rest."""
        for problem in problems:
            if self.full:
                self.more += 1
            else:
                self.problems.append(problem)

    def refuse(self) -> None:
        """Raise the one refusal that names the problems, if there are any."""
        if self.problems:
            raise refusal(self.problems, more=self.more)
