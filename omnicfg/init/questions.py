"""The questions that a person at a terminal is asked, each with an answer to fall back on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TextIO, TypeVar

from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.report.terminal import Style, has_colour, printable, width_of, wrap

_Answer = TypeVar("_Answer")
_END: Final = "there is no more input, and not all is answered: nothing was written"


class Questions:
    """Asks on one stream and reads from another. Raises :class:`UsageError` where the input ends."""

    def __init__(self, answers: TextIO, screen: TextIO) -> None:
        self._answers = answers
        self._screen = screen
        self._style = Style(has_colour(screen))
        self._width = width_of(screen)

    def ask(self, question: str, default: str, read: Callable[[str], _Answer], listed: Iterable[str] = ()) -> _Answer:
        """The answer, asked for again until ``read`` takes it; ``?`` shows what is ``listed``."""
        names = list(listed)
        hint = " (? lists them)" if names else ""
        while True:
            self._say(f"{self._style('strong', question)}{hint}")
            self._screen.write(f"[{printable(default)}] " if default else "> ")
            self._screen.flush()
            line = self._answers.readline()
            if not line.endswith("\n"):
                self._screen.write("\n")
                raise UsageError(_END, "Answer all questions, or say it by options: `omnicfg init --help`.")
            text = line.strip() or default
            if text == "?" and names:
                self._say(", ".join(names))
                continue
            try:
                return read(text)
            except OmnicfgError as error:
                self._refuse(error)

    def choose(self, question: str, choices: Sequence[tuple[str, str]]) -> str:
        """One of several, by its number; each is ``(word, what it is)``."""
        self._say(self._style("strong", question))
        for number, (_, what) in enumerate(choices, 1):
            self._say(f"  {number}  {what}")

        def read(text: str) -> str:
            if text.isdecimal() and text.isascii() and 1 <= int(text) <= len(choices):
                return choices[int(text) - 1][0]
            raise UsageError(f"`{text}` is none of the numbers", f"1 to {len(choices)}.")

        return self.ask("Which number?", "1", read)

    def _say(self, text: str) -> None:
        for line in wrap(text, self._width):
            self._screen.write(f"{line}\n")

    def _refuse(self, error: OmnicfgError) -> None:
        for diagnostic in error.diagnostics:
            self._say(self._style("warning", printable(diagnostic.message)))
            if diagnostic.help:
                self._say(printable(diagnostic.help))
