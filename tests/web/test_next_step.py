"""The one sentence that tells a person what to do next, whatever has become of a manifest's differences."""

from __future__ import annotations

from typing import Any

import pytest
from cli_store import MANIFEST, Folder, example

from airflow_delta_provider.core.store.publish import publish
from airflow_delta_provider.web.next_step import Told, earlier_html, next_step, patches_html
from airflow_delta_provider.web.opened import open_manifest
from airflow_delta_provider.web.patches import APPLIED, BEGUN, TAKEN_BACK, PatchState
from airflow_delta_provider.web.scope import Approval, Around, StoreScope
from airflow_delta_provider.web.trend import steps_of

ASKED = Approval("orders.approve", "../dags/orders")
ANSWERED = Approval("orders.approve", "../dags/orders", "Reject", "<b>eve</b>", "2026-12-01 10:00:00")


def patch(state: str, **more: Any) -> PatchState:
    return PatchState(
        "ab" * 32, "target", "source_authoritative", state, {"applied": 4, "skipped": 0}, "c", "l", 3, **more
    )


@pytest.fixture
def scope(tmp_path: Any) -> StoreScope:
    """The worked example, published."""
    folder = Folder(tmp_path / "store")
    publish(folder.store, example())
    return StoreScope(folder.store)


@pytest.mark.parametrize(
    ("patches", "around", "sentence"),
    [
        ([], Around(), "Most values diverge in column"),
        ([], Around([ASKED]), "A patch waits for an approval"),
        ([], Around([ANSWERED]), "Most values diverge in column"),
        ([patch(BEGUN)], Around(), "run it again, it goes on where it stopped"),
        ([patch(APPLIED)], Around(), "newest manifest of this pair</a> tells whether the sides are equal now"),
        ([patch(TAKEN_BACK), patch(APPLIED, takes_back="ab" * 32)], Around(), "was taken back"),
    ],
    ids=["nothing done", "waits", "rejected", "begun", "applied", "taken back"],
)
def test_the_next_step_follows_from_what_was_done(scope, patches, around, sentence):
    """A person who opens the page at three in the morning is told one thing, the one that is due."""
    opened = open_manifest(scope.find(MANIFEST))
    (step,) = steps_of([opened.seen])
    assert sentence in next_step(scope, opened, Told(step, patches, around))


def test_approvals_and_patches_are_told_with_their_people(scope):
    """Who agreed, when, and what came of it stands beside the differences; names are text."""
    (step,) = steps_of([scope.find(MANIFEST)])
    done = patch(APPLIED, approved="admin, 2026-12-01T10:00:00")
    shown = "".join(patches_html(Told(step, [done], Around([ANSWERED, ASKED]))))
    assert "<strong>Reject</strong> by &lt;b&gt;eve&lt;/b&gt;, 2026-12-01 10:00:00" in shown
    assert "waits for an approval" in shown
    assert "<td>4 applied</td><td>admin, 2026-12-01T10:00:00</td>" in shown
    before = "".join(earlier_html(scope, Told(step, earlier=[(step, [done])])))
    assert "4 rows differ" in before
    assert "then a patch of the target, applied, approved by admin, 2026-12-01T10:00:00: 4 applied" in before
