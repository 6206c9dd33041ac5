"""``python -m omnicfg.export.docs --out docs``: the reference pages and the pictures, from the code and the data.

Whole pages, and sections of hand-written pages between ``<!-- begin generated: NAME -->`` and
``<!-- end generated -->``. ``--check`` writes nothing and ends with 1 where a page is missing, stale or left over.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from omnicfg.export.docs_api import fields, functions
from omnicfg.export.docs_cli import cli_page
from omnicfg.export.docs_map import code_map
from omnicfg.export.docs_pictures import pictures
from omnicfg.export.docs_reference import profile_page, record_fields, scope_page
from omnicfg.export.docs_rules import rule_pages

_SECTIONS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "capability-records.md": {"record-fields": record_fields},
    "python-api.md": {
        "functions": functions,
        "diagnostic": lambda: fields("Diagnostic"),
        "change": lambda: fields("Change"),
    },
}
_RULES: Final = "rules"


def pages(folder: Path) -> dict[str, str]:
    """Page → text as it should be; hand-written pages in ``folder`` with their sections renewed."""
    made = {
        "cli.md": cli_page(),
        "code-map.md": code_map(),
        "prefix-cache-scope.md": scope_page(),
        "profile-reference.md": profile_page(),
        **{f"{_RULES}/{name}": text for name, text in rule_pages().items()},
        **{f"pictures/{name}": text for name, text in pictures().items()},
    }
    for name, sections in _SECTIONS.items():
        text = (folder / name).read_text(encoding="utf-8")
        for section, make in sections.items():
            text = renewed(text, section, make())
        made[name] = text
    return made


def renewed(text: str, section: str, content: str) -> str:
    """``text`` with the content of one of its sections replaced. Raises ``ValueError`` where it has no such section."""
    begin, end = f"<!-- begin generated: {section} -->", "<!-- end generated -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    replaced, count = pattern.subn(lambda _match: f"{begin}\n\n{content}\n{end}", text)
    if count != 1:
        raise ValueError(f"{count} sections {section!r}; there has to be one")
    return replaced


def left_over(folder: Path, made: Mapping[str, str]) -> list[Path]:
    """Pages on rules that no longer exist."""
    return [path for path in sorted((folder / _RULES).glob("*.md")) if f"{_RULES}/{path.name}" not in made]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the pages; the exit code is 1 where one is stale."""
    parser = argparse.ArgumentParser(
        prog="python -m omnicfg.export.docs", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the documentation")
    parser.add_argument("--check", action="store_true", help="only tell whether the pages are up to date")
    options = parser.parse_args(arguments)
    made = pages(options.out)
    stale = {name: text for name, text in made.items() if _current(options.out / name) != text}
    extra = left_over(options.out, made)
    if options.check:
        for path in [*(options.out / name for name in stale), *extra]:
            print(f"{path} is stale: run `python -m omnicfg.export.docs --out {options.out}`", file=sys.stderr)
        return 1 if stale or extra else 0
    for name, text in stale.items():
        path = options.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
    for path in extra:
        path.unlink()
        print(f"{path} removed")
    return 0


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
