"""OC205: a file that sets nothing."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import plain

RULE = Rule(
    code="OC205",
    name="empty-profile",
    severity=Severity.NOTE,
    what="A profile without any setting, or a base or an overlay that is empty.",
    why=(
        "vLLM-Omni takes an empty file for a profile: every stage gets the defaults, no device is assigned, "
        "`async_chunk` is on. A file that was cut off or not written yet therefore starts a server."
    ),
    bad="""\
pipeline: qwen3_tts
""",
    good="""\
pipeline: qwen3_tts
async_chunk: true
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """The profile as its files and overrides make it, and each file of its chain."""
    profile, *others = subject.profile.chain.documents
    if not subject.plans and (subject.pipeline is not None or "pipeline" in subject.profile.raw.items):
        return  # it cannot be compiled, and that is told
    settings = subject.profile.raw.without("pipeline").items.values()
    if not any(plain(node) is not None and plain(node) not in ([], {}) for node in settings) and not subject.overrides:
        yield Finding(profile.mark, "this profile sets nothing: every stage takes the defaults, `async_chunk` is on")
        others = [other for other in others if other.items]
    elif not profile.items:
        others = [profile, *others]
    for document in others:
        if not document.items:
            yield Finding(document.mark, "this file sets nothing")
