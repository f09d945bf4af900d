"""What became of a manifest's differences, and what a person may do next: approvals, patches, and one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.report.visible import plain
from airflow_delta_provider.web.layout import digest_link, href, manifest_href, verdict_html
from airflow_delta_provider.web.left_rows import listed_html
from airflow_delta_provider.web.opened import Opened
from airflow_delta_provider.web.patches import APPLIED, BEGUN, TAKEN_BACK, PatchState
from airflow_delta_provider.web.scope import Approval, Around, Scope
from airflow_delta_provider.web.trend import Step, pair_id_of


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of a manifest beside its documents.

    Shape: ``earlier`` are the manifests of the same pair that the same run showed before, oldest first, with their patches.
    """

    step: Step
    patches: Sequence[PatchState] = ()
    around: Around = field(default_factory=Around)
    earlier: Sequence[tuple[Step, Sequence[PatchState]]] = ()

    @property
    def waiting(self) -> Approval | None:
        """The approval that waits for a person, if one does."""
        return next((approval for approval in self.around.approvals if not approval.chosen), None)


def filter_links(scope: Scope, opened: Opened) -> tuple[dict[str, str], dict[str, str]]:
    """Return links to the records of each category, and of each column, that has some."""
    if not opened.records:
        return {}, {}
    counts = opened.material.manifest["categories"]
    names = [name for name in CATEGORIES if counts[name]["records"]]
    categories = {name: manifest_href(scope, opened.seen, "records", category=name) for name in names}
    diverged = [name for name, count, _ in opened.material.summary["columns"] if count]
    return categories, {name: manifest_href(scope, opened.seen, "records", column=name) for name in diverged}


def next_step(scope: Scope, opened: Opened, told: Told) -> str:
    """Return what a person may do next, in one or two sentences."""
    if told.waiting is not None:
        return (
            "A patch waits for an approval: look at the records, then "
            f'<a href="{told.waiting.path}" data-airflow="1">approve or reject it</a>.'
        )
    states = {patch.state for patch in told.patches if patch.takes_back is None}
    if BEGUN in {patch.state for patch in told.patches}:
        return "A patch was begun and has no ledger: run it again, it goes on where it stopped."
    if APPLIED in states:
        pair = {"pair": pair_id_of(opened.material.manifest)}
        link = f'<a href="{href("pair", pair, scope.params, opened.seen.params)}">newest manifest of this pair</a>'
        return f"A patch of these differences was applied: the {link} tells whether the sides are equal now."
    if not told.step.records:
        return _nothing_differs(told)
    if TAKEN_BACK in states:
        return "A patch of these differences was taken back: the target is as this manifest found it."
    if opened.material.sweep:
        return "These are the changes since the last sweep."
    return _repair(scope, opened)


def _nothing_differs(told: Told) -> str:
    if told.step.findings:
        return 'Nothing is to be done about the rows that were compared; look at the <a href="#schema">schema findings</a>.'
    return "Nothing is to be done about the rows that were compared."


def _repair(scope: Scope, opened: Opened) -> str:
    categories, columns = filter_links(scope, opened)
    most = max(opened.material.summary["columns"], key=lambda one: one[1], default=None)
    if most is not None and most[1]:
        name = f"<strong>{plain(most[0])}</strong> ({most[1]:,})"
        shown = f'<a href="{columns[most[0]]}">{name}</a>' if most[0] in columns else name
        return (
            f"Most values diverge in column {shown}: look at its records, "
            "decide whether a rule should make them equal, or repair the target with a patch."
        )
    ways = [f'<a href="{categories[name]}">{name}</a>' if name in categories else name for name in ("dropped", "added")]
    return (
        f"No value diverges, but rows are on one side alone ({ways[0]}: source, {ways[1]}: target): "
        'look at <a href="#where">where they lie</a>, then load them or repair the target with a patch.'
    )


def patches_html(told: Told) -> Iterator[str]:
    """Yield what was asked, and what was done about the differences."""
    yield '<section aria-labelledby="patches">\n<h2 id="patches">Patches</h2>\n'
    for approval in told.around.approvals:
        task = f'<a href="{approval.path}" data-airflow="1">{plain(approval.task_id)}</a>'
        if approval.chosen:
            yield f"<p>Task {task}: <strong>{plain(approval.chosen)}</strong> by {plain(approval.by)}, {plain(approval.at)}.</p>\n"
        else:
            yield f'<p>Task {task}: <strong class="bad">waits for an approval</strong>.</p>\n'
    if not told.patches:
        yield "<p>No patch of this manifest was begun.</p>\n</section>\n"
        return
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Patches"><table><thead><tr>'
    for name in ("patch", "side", "rule", "state", "outcomes", "approved by", "log entry"):
        yield f'<th scope="col">{name}</th>'
    yield "</tr></thead><tbody>"
    for patch in told.patches:
        yield _patch_row(patch)
    yield "</tbody></table></div>\n"
    for patch in told.patches:
        if patch.listed is not None:
            yield from listed_html(patch, patch.listed)
    yield "</section>\n"


def earlier_html(scope: Scope, told: Told) -> Iterator[str]:
    """Yield the verdicts that the same run gave before, such as that before a patch, and what was done about them."""
    for step, patches in told.earlier:
        yield f"<p>Before it in this run: {digest_link(scope, step.seen)} {verdict_html(step)}"
        for patch in patches:
            by = f", approved by {plain(patch.approved)}" if patch.approved else ""
            yield f"; then a patch of the {patch.side}, {patch.state}{by}: {_outcomes(patch)}"
        yield ".</p>\n"


def _outcomes(patch: PatchState) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in patch.outcomes.items() if count) or "–"


def _patch_row(patch: PatchState) -> str:
    undoes = f'<br><span class="soft">takes back {patch.takes_back[:12]}</span>' if patch.takes_back else ""
    kind = {BEGUN: "bad", APPLIED: "good"}.get(patch.state, "soft")
    return (
        f'<tr><th scope="row"><span class="digest" title="{patch.patch_id}">{patch.patch_id[:12]}</span>{undoes}</th>'
        f'<td>{patch.side}</td><td>{plain(patch.rule)}</td><td><span class="{kind}">{patch.state}</span></td>'
        f"<td>{_outcomes(patch)}</td><td>{plain(patch.approved) or '–'}</td><td>{patch.seq}</td></tr>"
    )
