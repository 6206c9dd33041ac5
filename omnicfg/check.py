"""``validate``: compile on every platform asked for and run every rule, each finding once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omnicfg.catalog.library import find_profile
from omnicfg.catalog.vllm_args import vllm_versions
from omnicfg.compiler import (
    Profile,
    ProfileName,
    check_platform,
    compile_profile,
    names_of,
    pipeline_of,
    read_chain,
)
from omnicfg.diagnostics import Diagnostic, Fix, Severity
from omnicfg.errors import ResolveError, UsageError
from omnicfg.findings.review import reviewed
from omnicfg.findings.settings import Settings
from omnicfg.near import did_you_mean
from omnicfg.passes.deploy import deploy
from omnicfg.passes.override import Override, parse_overrides
from omnicfg.passes.pipeline import guess_pipeline
from omnicfg.rule import DEFAULT_ENGINE, ENGINES, Rule, Subject, all_platforms, diagnostic, rule_modules, rule_of
from omnicfg.tree import LayerKind

if TYPE_CHECKING:
    from omnicfg.policy.evaluate import Policies


class Looked(NamedTuple):
    """What a look at one profile found.

    ``files`` says where every file lies that was looked at, the profile first, bases and overlays included, by the
    names that findings give them. ``whole`` are the files whose findings are all there: those of a profile that
    compiles on every platform; where it has overlays theirs, since they may hide what the profile alone would show.
    ``subject`` is what the rules saw, with the plans; ``None`` where the files do not come together.
    """

    findings: list[Diagnostic]
    files: dict[str, Path]
    whole: tuple[str, ...] = ()
    subject: Subject | None = None


Look = Callable[[Looked], None]
"""Is handed what was found in each profile, one after the other, before findings are brought together."""


@dataclass(frozen=True)
class Checked:
    """What was found in all profiles, each finding once, and what was asked.

    ``profiles`` are named as findings name them; ``policies`` are the codes of policies.
    """

    findings: list[Diagnostic]
    profiles: tuple[str, ...]
    files: dict[str, Path]
    whole: frozenset[str]
    platforms: tuple[str, ...]
    engine: str
    overridden: bool
    vllm_version: str | None = None
    policies: frozenset[str] = frozenset()


def validate(
    profiles: ProfileName | Iterable[ProfileName],
    *,
    platform: str = "all",
    pipeline: str | None = None,
    overlays: ProfileName | Iterable[ProfileName] = (),
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
    engine: str = DEFAULT_ENGINE,
    model: ProfileName | None = None,
    policies: ProfileName | Iterable[ProfileName] = (),
    vllm_version: str | None = None,
) -> list[Diagnostic]:
    """Every finding about one or more profiles, in the order of files and places; ``policies`` are policy files.

    ``vllm_version`` is a release whose engine args are shipped; without one it is what the engine runs on.
    What a comment in a file suppresses is left out; configuration files are not looked at.

    A profile that cannot be compiled yields the reason as a diagnostic. Only requests that make no sense (an
    unknown platform, a profile that does not exist, an unreadable override or policy) raise
    :class:`~omnicfg.errors.OmnicfgError`.
    """
    platforms = all_platforms() if platform == "all" else (platform,)
    checked = check(
        profiles,
        platforms,
        pipeline=pipeline,
        overlays=overlays,
        overrides=overrides,
        engine=engine,
        model=None if model is None else Path(model),
        policies=policies,
        vllm_version=vllm_version,
    )
    return reviewed(checked, Settings())[0]


def check(
    profiles: ProfileName | Iterable[ProfileName],
    platforms: Sequence[str],
    *,
    pipeline: str | None = None,
    overlays: ProfileName | Iterable[ProfileName] = (),
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
    engine: str = DEFAULT_ENGINE,
    model: Path | None = None,
    policies: ProfileName | Iterable[ProfileName] = (),
    vllm_version: str | None = None,
    ready: Policies | None = None,
    look: Look | None = None,
) -> Checked:
    """All that the rules and the compiler find, whoever may want it suppressed. Raises as :func:`validate` does.

    ``ready`` are policies that are open already, and stay so, in place of ``policies``.
    """
    names, layers = names_of(profiles), names_of(overlays)
    for name in platforms:
        check_platform(name)
    if engine not in ENGINES:
        raise UsageError(
            f"unknown engine `{engine}`", did_you_mean(engine, ENGINES) or f"Engines: {', '.join(ENGINES)}."
        )
    if vllm_version not in (None, *vllm_versions()):
        raise UsageError(
            f"the engine args of vLLM {vllm_version} are not shipped", f"Shipped: {', '.join(vllm_versions())}."
        )
    parsed = parse_overrides(overrides)
    merger = Merger(platforms)
    files: dict[str, Path] = {}
    shown: dict[str, None] = {}
    whole: set[str] = set()
    with _asked(names_of(policies)) if ready is None else nullcontext(ready) as asked:
        for profile in names:
            found = check_profile(profile, platforms, pipeline, layers, parsed, engine, model, vllm_version, asked)
            merger.add(profile, found.findings)
            if look is not None:
                look(found)
            files |= found.files
            shown[next(iter(found.files))] = None
            whole.update(found.whole)
        codes = frozenset(policy.id for policy in asked.policies) if asked else frozenset()
    return Checked(
        merger.merged(),
        tuple(shown),
        files,
        frozenset(whole),
        tuple(platforms),
        engine,
        bool(parsed),
        vllm_version,
        codes,
    )


def _asked(policies: Sequence[ProfileName]) -> AbstractContextManager[Policies | None]:
    """The policies of the files, ready to be asked; the library behind them is loaded only where there is one."""
    if not policies:
        return nullcontext()
    from omnicfg.policy.evaluate import Policies

    return Policies([Path(path) for path in policies])


def check_profile(
    name: ProfileName,
    platforms: Sequence[str],
    pipeline: str | None,
    overlays: Sequence[ProfileName],
    overrides: Sequence[Override],
    engine: str,
    model: Path | None,
    vllm_version: str | None = None,
    policies: Policies | None = None,
) -> Looked:
    """The findings about one profile, those of each platform apart."""
    path, shown = find_profile(name if isinstance(name, str) else Path(name))
    found: list[Diagnostic] = []
    raw, chain = read_chain(path, shown, overlays, found)
    if not chain.documents:
        return Looked(found, chain.paths)
    profile = Profile(shown, path, raw, chain, raw)
    if found:
        return _refused(profile, pipeline, overrides, engine, found)
    try:
        profile = profile._replace(deploy=deploy(raw))
    except ResolveError as error:
        return _refused(profile, pipeline, overrides, engine, list(error.diagnostics))
    key = _pipeline(profile, pipeline, overrides, model, found)
    subject = Subject(profile, key, engine, overrides, model=model, target=vllm_version)
    if key is not None:
        for platform in platforms:
            try:
                subject.plans[platform] = compile_profile(profile, platform, key, overrides)
            except ResolveError as error:
                found += [replace(diagnostic, platform=platform) for diagnostic in error.diagnostics]
    found += _untold(run_rules(subject), found)
    if policies is not None:
        found += policies.findings(subject)
    overlaid = [each.mark.file for each in profile.chain.documents if each.layer.kind is LayerKind.OVERLAY]
    whole = tuple(overlaid) or (profile.shown,)
    return Looked(found, profile.chain.paths, whole if len(subject.plans) == len(platforms) else (), subject)


def _refused(
    profile: Profile, pipeline: str | None, overrides: Sequence[Override], engine: str, found: list[Diagnostic]
) -> Looked:
    """A profile that no platform can have: why, and what else its files say wrong."""
    subject = Subject(profile, _pipeline(profile, pipeline, overrides, None, []), engine, overrides)
    places = {(each.path, each.line, each.column) for each in found}
    others = (each for each in document_rules(subject) if (each.path, each.line, each.column) not in places)
    return Looked([*found, *others], profile.chain.paths, subject=subject)


def _untold(findings: Iterable[Diagnostic], refused: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Findings without those that only say of a value's kind (OC102) what a refusal says of the same place."""
    places = {(each.path, each.line, each.column) for each in refused if each.severity is Severity.ERROR}
    return [each for each in findings if each.code != "OC102" or (each.path, each.line, each.column) not in places]


def _pipeline(
    profile: Profile,
    asked: str | None,
    overrides: Sequence[Override],
    model: Path | None,
    found: list[Diagnostic],
) -> str | None:
    """The pipeline; where only the file's name points to one, that guess, and a note that says so."""
    try:
        return pipeline_of(profile, asked, overrides, model)
    except ResolveError as error:
        problem = error.diagnostics[0]
        if problem.name != "no-pipeline":
            found.append(problem)
            return None
        guess = guess_pipeline(profile.path)
        told = f"checked as {guess}, which the file's name suggests" if guess else "only the file itself was checked"
        found.append(replace(problem, severity=Severity.NOTE, message=f"{problem.message}; {told}"))
        return guess


def document_rules(subject: Subject) -> Iterator[Diagnostic]:
    """Every rule over the documents of a subject, each by itself."""
    documents = subject.documents()
    for module in rule_modules():
        if hasattr(module, "check_document"):
            for document in documents:
                yield from _diagnostics(rule_of(module), module.check_document(document, subject))


def run_rules(subject: Subject) -> Iterator[Diagnostic]:
    """Every rule over the documents, the merged profile and the plans of a subject."""
    yield from document_rules(subject)
    for module in rule_modules():
        rule = rule_of(module)
        if hasattr(module, "check_profile"):
            yield from _diagnostics(rule, module.check_profile(subject))
        if hasattr(module, "check_plan"):
            for platform, plan in subject.plans.items():
                for found in _diagnostics(rule, module.check_plan(plan, subject)):
                    yield replace(found, platform=platform)


def _diagnostics(rule: Rule, findings: Iterable[Any]) -> Iterator[Diagnostic]:
    return (diagnostic(rule, finding) for finding in findings)


class Merger:
    """Brings findings together: each once, whatever the number of platforms and profiles that show it."""

    def __init__(self, platforms: Sequence[str]) -> None:
        self.platforms = platforms
        self.names: dict[Diagnostic, set[str]] = {}
        self.seen_in: dict[Diagnostic, set[str]] = {}
        self.fixes: dict[Diagnostic, Fix | None] = {}

    def add(self, profile: ProfileName, found: Iterable[Diagnostic]) -> None:
        """Take in the findings about a profile, but those in the block of a platform that nobody asked about."""
        for finding in found:
            bare = replace(finding, platform=None, fix=None)
            platforms = finding.platform.split(",") if finding.platform else [""]
            if platforms != [""] and not set(platforms) & set(self.platforms):
                continue
            self.names.setdefault(bare, set()).update(platforms)
            self.seen_in.setdefault(bare, set()).add(_file_name(profile))
            self.fixes[bare] = _less_sure(self.fixes.get(bare, finding.fix), finding.fix)

    def merged(self) -> list[Diagnostic]:
        """The findings in the order of their places."""
        merged = [
            replace(self._placed(diagnostic), platform=self._platform(names), fix=self.fixes[diagnostic])
            for diagnostic, names in self.names.items()
        ]
        return sorted(merged, key=lambda diagnostic: diagnostic.sort_key)

    def _platform(self, names: set[str]) -> str | None:
        """``None`` for a finding of the file, or of all of several platforms; otherwise the platforms' names."""
        known = [platform for platform in all_platforms() if platform in names]
        if "" in names or (len(self.platforms) > 1 and set(self.platforms) <= set(known)):
            return None
        return ",".join(known)

    def _placed(self, diagnostic: Diagnostic) -> Diagnostic:
        """Names one of the derived profiles in a finding about a base that only they show."""
        profiles = sorted(self.seen_in[diagnostic])
        is_file = Path(diagnostic.path).suffix and not diagnostic.path.startswith("--")
        if not is_file or _file_name(diagnostic.path) in profiles:
            return diagnostic
        others = f" and {len(profiles) - 1} more" if len(profiles) > 1 else ""
        return replace(diagnostic, message=f"{diagnostic.message} (in profile {profiles[0]}{others})")


def _less_sure(one: Fix | None, other: Fix | None) -> Fix | None:
    """The fix that holds for both of two profiles which show the same finding."""
    if one is None or other is None or one.edits != other.edits:
        return None
    return one if not one.safe else other


def _file_name(profile: ProfileName) -> str:
    """How profiles are told apart here: by file name, with the suffix that library names lack."""
    name = Path(profile).name
    return name if Path(name).suffix else f"{name.replace('-', '_')}.yaml"
