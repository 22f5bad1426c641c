"""A page of styled lines: wrapped to a width however wide its characters are, coloured on a terminal, plain everywhere else."""

import os
import re
from typing import TextIO

from rich.cells import cell_len  # the rest of rich is slow to import, and only a terminal needs it

WIDTH = 80
_WORD = re.compile(r"\s*\S+")


class Page:
    """Lines of text, each in one style of rich (`bold`, `red` ...). Nothing in a text is read as markup."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def line(self, text: str = "", style: str = "") -> None:
        self.lines.append((text, style))

    def heading(self, text: str) -> None:
        self.line()
        self.line(text, "bold")

    def wrapped(self, text: str, first: str = "", rest: str | None = None, style: str = "") -> None:
        """Lines of at most 80 columns; the first begins with `first`, the others with `rest` (default: the same), which is as long."""
        rest = first if rest is None else rest
        for number, piece in enumerate(wrap(text, WIDTH - len(rest))):
            self.line((first if number == 0 else rest) + piece, style)

    def plain(self) -> str:
        return "".join(f"{text}\n" for text, _ in self.lines)

    def write(self, stream: TextIO) -> None:
        """Write the page, with colours if the stream is a terminal that wants them. What its encoding does not have becomes a question mark."""
        text = self._coloured(stream) if stream.isatty() or os.environ.get("FORCE_COLOR") else self.plain()
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()

    def _coloured(self, stream: TextIO) -> str:
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False)
        with console.capture() as captured:
            for text, style in self.lines:
                console.print(Text(text, style), soft_wrap=True)
        return captured.get()


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, broken at spaces where that is possible, else within a word."""
    lines, line = [], ""
    for word in _WORD.findall(text):
        if cell_len(line + word) <= width:
            line += word
            continue
        if line:
            lines.append(line)
        line = ""
        for character in word.lstrip():
            if cell_len(line + character) > width:
                lines.append(line)
                line = ""
            line += character
    return [*lines, line] if line or not lines else lines
