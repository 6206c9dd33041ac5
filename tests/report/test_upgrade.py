"""What an upgrade changes, told: equal effects together, the worst kind first, never too long."""

from __future__ import annotations

from omnicfg.report.changes_markdown import MAX_COMMENT
from omnicfg.report.terminal import Style
from omnicfg.report.upgrade import render_upgrade, upgrade_markdown
from omnicfg.tree import Mark
from omnicfg.upgrade import Effect, ProfileEffects, Upgrade

PLATFORMS = ("cuda", "npu")


def found() -> Upgrade:
    effects = (
        (Effect("default", 0, "a", 1, None), PLATFORMS),
        (Effect("removed", 1, "runtime.env.HF_TOKEN", "hunter2", None, Mark("p.yaml", 3, 5)), ("npu",)),
    )
    few = ProfileEffects("p0.yaml", effects)
    rest = [ProfileEffects(f"p{number}.yaml", effects[:1]) for number in range(1, 5)]
    return Upgrade("vllm", "1.0", "2.0", (few, *rest), 8, ("new_arg",))


def test_text() -> None:
    assert render_upgrade(found(), PLATFORMS, Style(False), None).splitlines() == [
        "vllm 1.0 to 2.0: something changes for 5 of 8 profiles.",
        "",
        "no longer exists",
        "  key                   before  after  where",
        '  runtime.env.HF_TOKEN  "***"   gone   p.yaml:3:5 stage 1 on npu',
        "",
        "unset here, and the default changes",
        "  key  before  after  where",
        "  a    1       unset  5 places in 5 profiles",
        "",
        "New in 2.0: new_arg",
    ]


def test_markdown() -> None:
    text = upgrade_markdown(found(), PLATFORMS)
    assert "| `a` | `1` | `unset` | `p0.yaml stage 0`, `p1.yaml stage 0`," in text
    assert "hunter2" not in text
    assert text.index("No longer exists") < text.index("Unset here")


def test_it_is_never_longer_than_a_comment_may_be() -> None:
    effects = tuple((Effect("removed", 0, f"key_{number}", "x" * 50), PLATFORMS) for number in range(3000))
    text = upgrade_markdown(Upgrade("vllm", "1", "2", (ProfileEffects("p.yaml", effects),), 1, ()), PLATFORMS)
    assert len(text) < MAX_COMMENT
    assert "more lines are left out" in text
