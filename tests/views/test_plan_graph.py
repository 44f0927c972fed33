"""The graph of a plan: each row joins the rails of what its step needs."""

from holdfast import plans
from holdfast.cli.drawing.plan_graph import lines, rows


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
