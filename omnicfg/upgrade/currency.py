"""What a new release of vLLM or vLLM-Omni changes, as the text of a pull request that brings its data.

``python -m omnicfg.upgrade.currency vllm 0.32.0..0.33.0`` prints it. Everything is told by the exported data of the two
releases, and by how the newer one's own loader was found to agree with omnicfg (``--parity``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.library import library
from omnicfg.catalog.paths import load_json
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.differences.compare import same
from omnicfg.export.vllm_changes import changes, flattened
from omnicfg.report.changes_markdown import code
from omnicfg.report.upgrade import upgrade_markdown
from omnicfg.report.yaml import inline
from omnicfg.upgrade import upgrade

Entry = Mapping[str, Any]
_UNSET: Final = object()
_LISTED: Final = 60
"""Names that are listed beside each other before the rest is counted."""

_TABLES: Final = {
    "deploy_fields": "keys of a profile",
    "stage_fields": "keys of a stage",
    "duplex_session_fields": "keys of `duplex_session`",
    "stage_pipeline_fields": "what a pipeline says of a stage",
    "engine_args": "engine args of its own",
    "diffusion_args": "engine args of diffusion stages",
    "sampling_params": "sampling parameters",
    "diffusion_sampling_params": "sampling parameters of diffusion stages",
    "pooling_params": "pooling parameters",
}
_LISTS: Final = {
    "platforms": "platforms",
    "model_runners": "model runners",
    "session_modes": "session modes",
    "pipeline_wide_engine_fields": "engine args that hold for all stages",
    "deep_merge_keys": "keys that merge deeply",
    "stage_reserved_keys": "reserved keys of a stage",
    "connectors": "connectors",
    "connector_extra_keys": "keys of a connector's `extra`",
}
_TOPOLOGY_UNTOLD: Final = frozenset({"lines", "source", "stages", "stage_id"})
_DECISIONS: Final = {
    "vllm": (
        "Does `serve` move to this release? Then `DEFAULT_VLLM`, the extras `cpu` and `cuda` and the constraints do.",
        "Is each removed or renamed arg in a shipped profile dealt with?",
        "Does a changed default change what a capability record says?",
    ),
    "vllm-omni": (
        "Do profiles compile as this release? Then `VLLM_OMNI` moves, and the passes follow its merge rules.",
        "If they do, `python -m tests.parity.oracle` writes the expected values anew.",
        "Does each new pipeline get a profile and a capability record?",
        "Does a changed topology or default change what a capability record says?",
    ),
}


def report(product: str, before: str, after: str, parity: Entry | None = None) -> str:
    """The whole text, in Markdown. Raises :class:`UsageError` for a release whose data are not there."""
    platforms = deploy_schema().platforms
    found = upgrade(product, before, after, sorted(library()), platforms)
    sections = _vllm(before, after) if product == "vllm" else _vllm_omni(before, after)
    parts = [
        f"# {product} {before} to {after}\n",
        f"<!-- Made by `python -m omnicfg.upgrade.currency {product} {before}..{after}`. -->\n",
        *sections,
        f"## The shipped profiles\n\n{upgrade_markdown(found, platforms).split('<details>')[0].rstrip()}\n",
        f"## Parity\n\n{_parity(parity)}\n",
        f"## For a person to decide\n\n{''.join(f'- [ ] {each}{chr(10)}' for each in _DECISIONS[product])}",
    ]
    return "\n".join(parts)


def _parity(parity: Entry | None) -> str:
    if parity is None:
        return "The release's own loader has not been asked."
    told = (
        f"The loader of {parity['product']} {parity['release']} was asked about {parity['asked']}: "
        f"{parity['agreeing']} of {parity['answers']} answers are those of omnicfg."
    )
    rows = [(code(where), str(times)) for where, times in parity["differing"].items()]
    more = f"\n\nAnd {parity['differing_more']} other differences." if parity["differing_more"] else ""
    return f"{told}\n\n{_table(('difference', 'times'), rows)}{more}" if rows else told


# --------------------------------------------------------------------------------------------------------- vLLM
def _vllm(before: str, after: str) -> Iterator[str]:
    old, new = (load_json(f"schemas/vllm/{version}.json") for version in (before, after))
    (found,) = changes([old, new]).values()
    known = [flattened(old), flattened(new)]
    yield _section("Removed args", ("arg", "was"), ((code(name), _type(known[0][name])) for name in found["removed"]))
    yield _section(
        "Renamed args",
        ("was", "is", "why"),
        ((code(e["from"]), code(e["to"]), e["evidence"]) for e in found["renamed"]),
    )
    yield _section(
        "Changed defaults",
        ("arg", "was", "is"),
        ((code(name), *_values(was, now)) for name, (was, now) in found["default_changed"].items()),
    )
    yield _section(
        "Changed outcomes of args that are left unset",
        ("arg", "was", "is"),
        ((code(name), *_values(was, now)) for name, (was, now) in found["resolved_changed"].items()),
    )
    yield _section(
        "Changed choices",
        ("arg", "new", "gone"),
        ((code(name), _names(e["added"]), _names(e["removed"])) for name, e in found["choices_changed"].items()),
    )
    yield _section(
        "Changed types",
        ("arg", "was", "is"),
        ((code(name), *_values(was, now)) for name, (was, now) in found["type_changed"].items()),
    )
    yield _section("Deprecated args", ("arg",), ((code(name),) for name in found["deprecated"]))
    yield _section(
        "New args", ("arg", "default", "type"),
        ((code(name), _value(known[1][name]["default"]), _type(known[1][name])) for name in found["added"]),
    )  # fmt: skip


def _type(record: Entry) -> str:
    return code(inline(record["type"]))


# ---------------------------------------------------------------------------------------------------- vLLM-Omni
def _vllm_omni(before: str, after: str) -> Iterator[str]:
    deploy, data = (
        [load_json(f"schemas/vllm-omni/{version}/{name}.json") for version in (before, after)]
        for name in ("deploy", "pipelines")
    )
    pipelines: list[Mapping[str, Entry]] = [each["pipelines"] for each in data]
    yield from _pipelines(pipelines)
    files = [each["default_deploy_files"] for each in data]
    yield _came_and_went("Default deploy files", [("files", files[0], files[1])])
    yield from _fields(deploy)
    yield _came_and_went(
        "Words of the deploy language", [(said, *(d[name] for d in deploy)) for name, said in _LISTS.items()]
    )
    owners = [
        (f"stages of kind `{kind}`", deploy[0]["owners"].get(kind, {"stage": ()})["stage"], owned["stage"])
        for kind, owned in deploy[1]["owners"].items()
    ]
    yield _came_and_went("Engine args that a stage takes", owners)


def _pipelines(pipelines: Sequence[Mapping[str, Entry]]) -> Iterator[str]:
    old, new = pipelines
    yield _section(
        "New pipelines",
        ("pipeline", "architecture", "stages"),
        (
            (code(key), code(new[key]["model_arch"]), _names(s["model_stage"] for s in new[key]["stages"]))
            for key in new.keys() - old.keys()
        ),
    )
    yield _section("Pipelines that are gone", ("pipeline",), ((code(key),) for key in old.keys() - new.keys()))
    rows = [row for key in sorted(old.keys() & new.keys()) for row in _topology(key, old[key], new[key])]
    yield _section("Changed topologies", ("pipeline", "stage", "what", "was", "is"), rows, ordered=True)


def _topology(key: str, old: Entry, new: Entry) -> Iterator[tuple[str, ...]]:
    sides = [{stage["stage_id"]: stage for stage in each["stages"]} for each in (old, new)]
    pairs = [("", old, new), *((str(i), sides[0].get(i), sides[1].get(i)) for i in sorted({*sides[0], *sides[1]}))]
    for stage, was, now in pairs:
        if was is None or now is None:
            yield code(key), stage, "the stage itself", *("no" if each is None else "yes" for each in (was, now))
            continue
        for name in (name for name in was if name in now and name not in _TOPOLOGY_UNTOLD):
            if not same(was[name], now[name]):
                yield code(key), stage, code(name), *_values(was[name], now[name])


def _fields(deploy: Sequence[Entry]) -> Iterator[str]:
    tables = {name: [{field["name"]: field for field in side[name]} for side in deploy] for name in _TABLES}
    new = ((name, field) for name, (old, now) in tables.items() for field in now.values() if field["name"] not in old)
    yield _section(
        "New keys",
        ("key", "among the", "type", "default"),
        ((code(f["name"]), _TABLES[name], code(f["type"]), _value(f.get("default", _UNSET))) for name, f in new),
    )
    gone = ((name, field) for name, (old, now) in tables.items() for field in old.values() if field["name"] not in now)
    yield _section("Removed keys", ("key", "from the"), ((code(field["name"]), _TABLES[name]) for name, field in gone))
    both = ((name, old[key], now[key]) for name, (old, now) in tables.items() for key in old.keys() & now.keys())
    pairs = [(name, was, now) for name, was, now in both]
    yield _section(
        "Changed defaults",
        ("key", "among the", "was", "is"),
        (
            (code(now["name"]), _TABLES[name], *_values(was.get("default", _UNSET), now.get("default", _UNSET)))
            for name, was, now in pairs
            if not same(was.get("default"), now.get("default"))
        ),
    )
    yield _section(
        "Changed types",
        ("key", "among the", "was", "is"),
        (
            (code(n["name"]), _TABLES[name], code(w["type"]), code(n["type"]))
            for name, w, n in pairs
            if w["type"] != n["type"]
        ),
    )


def _came_and_went(title: str, rows: Iterable[tuple[str, Iterable[str], Iterable[str]]]) -> str:
    told = ((said, _names(sorted({*new} - {*old})), _names(sorted({*old} - {*new}))) for said, old, new in rows)
    return _section(title, ("what", "new", "gone"), (row for row in told if row[1] or row[2]))


# --------------------------------------------------------------------------------------------------------- text
def _section(title: str, headers: Sequence[str], rows: Iterable[tuple[str, ...]], *, ordered: bool = False) -> str:
    listed = list(rows) if ordered else sorted(rows)
    return f"## {title}\n\n{_table(headers, listed) if listed else 'None.'}\n"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _value(value: Any) -> str:
    return "(required)" if value is _UNSET else code(inline(value))


def _values(was: Any, now: Any) -> tuple[str, str]:
    """Both values; of two mappings or lists, what differs in them."""
    return _value(_only(was, now)), _value(_only(now, was))


def _only(value: Any, other: Any) -> Any:
    """What of a value the other one does not have."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return {
            key: _only(each, other.get(key)) for key, each in value.items() if not same(each, other.get(key, _UNSET))
        }
    if isinstance(value, list) and isinstance(other, list):
        return [each for each in value if not any(same(each, one) for one in other)]
    return value


def _names(names: Iterable[Any]) -> str:
    told = [code(str(name)) for name in names]
    more = f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    return ", ".join(told[:_LISTED]) + more


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the text; the exit code is 2 for releases whose data are not there."""
    from omnicfg.errors import UsageError

    parser = argparse.ArgumentParser(
        prog="python -m omnicfg.upgrade.currency", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("product", choices=("vllm", "vllm-omni"))
    parser.add_argument("releases", metavar="BEFORE..AFTER")
    parser.add_argument("--parity", type=Path, help="what the newer release's loader said")
    options = parser.parse_args(arguments)
    before, _, after = options.releases.partition("..")
    parity = json.loads(options.parity.read_text(encoding="utf-8")) if options.parity else None
    try:
        sys.stdout.write(report(options.product, before, after, parity))
    except UsageError as error:
        print(error.diagnostics[0].message, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
