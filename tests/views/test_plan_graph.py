"""The graph of a plan: each row joins the rails of what its step needs."""

from holdfast import plans
from holdfast.cli.drawing import plan_graph
from holdfast.cli.drawing.plan_graph import lines, rows
from holdfast.cli.drawing.plan_progress import PlanStatuses
from holdfast.cli.drawing.terminal import text_of
from holdfast.views.records import StepInfo


def test_the_rails_of_a_graph() -> None:
    """Edges that go through another step are left out; a rail ends at the last step that needs it."""
    needs = {"a": "", "b": "a", "c": "a, b", "d": "a", "e": "c, d", "f": "", "g": "f", "h": "e, a"}
    text = "name: p\nsteps:\n" + "".join(
        f"- {{id: {id}, needs: [{wanted}], sleep: 1}}\n" for id, wanted in needs.items()
    )
    drawn = [f"{row.before}*{row.after}".rstrip() + f" {row.step.id}" for row in rows(plans.read(text))]
    assert drawn == ["* a", "├─* b", "│ * c", "* │ d", "*─╯ e", "│ * f", "│ * g", "* h"]


def test_a_row_fits_the_width_with_its_milestone() -> None:
    """What the step does is cut, the milestone is not."""
    plan = plans.read(f"name: p\nsteps:\n- {{id: a, run: [echo, {'kelp' * 40}], milestone: written}}\n")
    *_, drawn = (
        "".join(piece if isinstance(piece, str) else piece[0] for piece in line) for line in lines(plan, 80)
    )
    assert len(drawn) <= 80 and drawn.endswith("…  ⚑ written")


def test_a_graph_that_is_too_high_shows_what_runs() -> None:
    """The name, and the rows around the first step that has not ended; one that fits is whole."""
    steps = "".join(f"- {{id: s{n}, run: 'true'{f', needs: [s{n - 1}]' if n else ''}}}\n" for n in range(30))
    plan = plans.read(f"name: tall\nsteps:\n{steps}")
    drawn = list(plan_graph.rows(plan))
    whole = list(plan_graph.lines(plan, 80, {}, drawn=drawn))
    assert plan_graph.window(whole, drawn, {}, len(whole)) == whole
    for done, first, above, below in ((0, 0, "", "... 21 below"), (12, 9, "... 9 above", "... 12 below"),
                                      (30, 21, "... 21 above", "")):  # fmt: skip
        status = {f"s{n}": "completed" for n in range(done)}
        seen = [text_of(line) for line in plan_graph.window(whole, drawn, status, 12)]
        assert len(seen) == 12 and seen[0] == "tall" and seen[1].strip() == above
        assert seen[2].split()[1] == f"s{first}" and seen[-1].strip() == below


def test_the_status_of_a_step_is_the_worst_in_its_scope() -> None:
    """Also as steps change; what lies in no scope belongs to no step of the plan."""
    statuses = PlanStatuses([StepInfo("a[1]/a#1", status="completed"), StepInfo("whole#1")])
    assert (statuses.of("a"), statuses.of("whole"), statuses.of("b")) == ("completed", "", "")
    assert statuses.see(StepInfo("a[1]/a[2]/a#1", status="running")) == "a" and statuses.of("a") == "running"
    statuses.see(StepInfo("a[1]/a[2]/a#1", status="failed"))
    assert statuses.of("a") == "failed"
    statuses.see(StepInfo("a[1]/a[2]/a#1", status="completed"))
    assert statuses.of("a") == "completed"
    statuses.see(StepInfo("ok[1]/ok#1", status="completed", outcome="rejected"))
    assert statuses.of("ok") == "failed"
