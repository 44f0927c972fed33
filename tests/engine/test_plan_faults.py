"""Broken plans: every fault at once, each with its line, and nothing runs."""

import msgspec
import pytest

from holdfast import plans
from holdfast.errors import BadExpression, NotFound, PlanFaults
from holdfast.plans.expressions import Values, evaluate

HEAD = "name: p\nsteps:\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)
BROKEN = {
    "a cycle": (
        HEAD + "- {id: a, needs: [c], run: 'true'}\n- {id: b, needs: [a], run: 'true'}\n"
        "- {id: c, needs: [b], run: 'true'}\n",
        [(3, "a cycle: `a` needs `c` needs `b` needs `a`")],
    ),
    "a cycle through expressions": (
        HEAD + "- {id: a, when: len(b) > 0, run: 'true'}\n- {id: b, run: [echo, '${a.stdout}']}\n",
        [(3, "a cycle: `a` needs `b` needs `a`")],
    ),
    "unknown keys": (
        "name: p\nparalell: 2\nsteps:\n- id: a\n  run: 'true'\n  retries: 3\n",
        [(2, "did you mean `parallel`?"), (6, "a step has no key `retries`; did you mean `retry`?")],
    ),
    "unknown steps": (
        HEAD + "- {id: build, run: 'true'}\n- id: b\n  needs: [biuld]\n  run: [echo, '${buildd.stdout}']\n",
        [(5, "no step `biuld`; did you mean `build`?"), (6, "no `buildd`; did you mean `build`?")],
    ),
    "wrong types": (
        "name: [p]\ninput: [a]\nparallel: many\ncheckpoint_every: 0\nsteps:\n- id: a\n  run: {x: 1}\n"
        "  timeout: soon\n  writes: 3\n  env: [A]\n  retry: often\n- {id: b, sleep: -1}\n- text\n",
        [(1, "`name`"), (2, "`input`"), (3, "`parallel`"), (4, "`checkpoint_every`"), (7, "`run`"),
         (8, "`timeout`"), (9, "`writes`"), (10, "`env`"), (11, "`retry`"), (12, "`sleep`"),
         (13, "a step is")],
    ),
    "expressions": (
        HEAD + "- {id: a, when: 1 +, run: 'true'}\n- {id: b, when: 2 ** 99, run: 'true'}\n"
        "- {id: c, when: a.__class__, run: 'true'}\n- {id: d, when: open('x'), run: 'true'}\n"
        "- {id: e, run: [echo, '${item}']}\n- {id: f, run: [echo, '${']}\n"
        "- {id: g, when: '[x for x in a]', run: w}\n",
        [(3, "is no expression"), (4, "arithmetic"), (5, "underscore"), (6, "can be called"),
         (7, "`item` is known only inside"), (8, "`${` is not closed"), (9, "a comprehension")],
    ),
    "a command not found": (
        HEAD + "- {id: a, run: [no-such-program-x]}\n- {id: b, run: /no/such/program}\n",
        [(3, "there is no program `no-such-program-x`"), (4, "there is no program /no/such/program")],
    ),
    "a YAML bomb": (BOMB, [(1, "more than 10,000 values")]),
    "an alias of itself": ("a: &a [*a]\n", [(1, "an alias repeats what it is inside of")]),
    "a tab": (HEAD + "\t- {id: a}\n", [(3, "a tab cannot indent")]),
    "two steps with one id": (
        HEAD + "- {id: a, run: 'true'}\n- {id: a, run: 'false'}\n", [(4, "taken by the step in line 3")]
    ),
    "keys twice": (
        HEAD + "- id: a\n  run: 'true'\n  run: 'false'\nname: q\n",
        [(5, "the key `run` stands twice"), (6, "the key `name` stands twice")],
    ),
    "no kind, two kinds": (
        HEAD + "- {id: a}\n- {id: b, run: 'true', sleep: 1}\n", [(3, "needs one of"), (4, "does one thing")]
    ),
    "ids": (
        HEAD + "- {id: input, run: 'true'}\n- {id: a.b, run: 'true'}\n- {run: 'true'}\n",
        [(3, "means something else"), (4, "a letter, then"), (5, "needs an `id`")],
    ),
    "inputs": (
        "name: p\ninput: {version: null, dry: false}\nsteps:\n- {id: a, run: [echo, '${input.verson}']}\n",
        [(4, "no input `verson`; did you mean `version`?")],
    ),
    "options that do not go together": (
        HEAD + "- {id: a, run: 'true', effect: once, retry: 3}\n"
        "- {id: b, run: 'true', effect: idempotent, writes: [x]}\n- {id: c, approve: Yes?, env: {A: b}}\n"
        "- {id: d, run: 'true', effect: twice, isolate: cpy}\n",
        [(3, "`effect: once` forbids `retry`"), (4, "`writes` is for"), (5, "for a `approve` step"),
         (6, "`effect: twice` is not known"), (6, "`isolate: cpy` is not known")],
    ),
    "shell text": (
        HEAD + "- {id: a, run: 'make && make test'}\n- {id: b, foreach: [1], run: [sh, -c, 'echo ${item}']}\n"
        "- {id: c, foreach: [1], run: [env, bash, -ec, '${item}']}\n",
        [(3, "no shell reads `run`"), (4, "puts a value into a program"), (5, "puts a value into a program")],
    ),
    "agents": (
        HEAD + "- {id: a, agent: Write it, env: {A: b}}\n- {id: b, agent: ''}\n"
        "- {id: c, agent: Go, effect: once}\n",
        [(3, "`env` has no meaning for a `agent` step"), (4, "a prompt is empty"), (5, "`effect` has no")],
    ),
    "tools": (
        HEAD + "- {id: a, tool: raed}\n- {id: b, tool: read, with: {paht: x}}\n",
        [(3, "did you mean `read`?"), (4, "takes no 'paht'"), (4, "read needs 'path'")],
    ),
    "functions": (
        HEAD + "- {id: a, python: nowhere}\n- {id: b, python: 'no_such_module_x:f'}\n",
        [(3, "write `module:function`"), (4, "there is no module `no_such_module_x`")],
    ),
    "sub-plans": (
        HEAD + "- {id: a, plan: gone.yaml}\n- {id: b, plan: 7}\n", [(3, "no file"), (4, "the path of a")]
    ),
    "no plan at all": ("- a\n- b\n", [(1, "a plan is a mapping")]),
    "nothing": ("\n", [(1, "the plan is empty")]),
    "objects": ("a: !!python/object/apply:os.system [x]\nb: 1\n", [(1, "makes objects; only plain data")]),
    "no YAML": ("name: p\nsteps: [\n", [(3, "this is no YAML")]),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_every_fault_is_told_with_its_line(name, tmp_path, monkeypatch):
    """All of them in one go, in the order of the lines, and `read` raises them."""
    monkeypatch.chdir(tmp_path)
    text, expected = BROKEN[name]
    found = [fault for fault in plans.check(text) if not fault.remark]
    for line, part in expected:
        assert any(fault.line == line and part in fault.text for fault in found), (line, part, found)
    assert {fault.line for fault in found} <= {line for line, _ in expected}
    assert found == sorted(found) and all(fault.column > 0 for fault in found)
    with pytest.raises(PlanFaults) as caught:
        plans.read(text)
    assert list(caught.value.faults) == found


def test_one_line_is_a_path(tmp_path, monkeypatch):
    """Whatever its name: a directory is not read as a text, and a file needs no suffix."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match=r"^\. cannot be read: Is a directory"):
        plans.check(".")
    with pytest.raises(NotFound, match=r"there is no file plan.txt"):
        plans.check("plan.txt")
    (tmp_path / "plan.json").write_text('{"name": "p", "steps": [{"id": "a", "run": "true"}]}')
    assert plans.read("plan.json") == msgspec.structs.replace(
        plans.read('{"name": "p", "steps": [{"id": "a", "run": "true"}]}'), source="plan.json"
    )


NO_ITEM = "this line has a box and is no item; write it as `- [ ] text`"
CHECKLISTS = {
    "no blank in the box": ("- [ ] a: `true`\n- [] b\n", [(2, 1, NO_ITEM)]),
    "no blank before it": ("- [ ] a: `true`\n-[ ] b\n", [(2, 1, NO_ITEM)]),
    "no blank behind it": ("- [ ] a: `true`\n  - [ ]b\n", [(2, 3, NO_ITEM)]),
    "no words": ("- [ ] a: `true`\n- [ ]\n", [(2, 1, NO_ITEM)]),
    "numbers, other bullets, none": (
        "- [ ] a: `true`\n1. [ ] b\n• [ ] c\n[ ] d\n", [(2, 1, NO_ITEM), (3, 1, NO_ITEM), (4, 1, NO_ITEM)]
    ),
    "nothing else": ("# A\n- [] b\n", [(2, 1, NO_ITEM)]),
    "two commands": (
        "- [ ] a: `true` and `false`\n",
        [(1, 1, "an item runs one command, and this has 2: give `false` an item of its own, "
          "or write it without backticks")],
    ),
    "an open code block": (
        "- [ ] a: `true`\n```\n- [ ] b\n",
        [(2, 1, "the code block that begins here is not closed; items follow")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKLISTS)
def test_a_checklist_leaves_nothing_out_silently(name, tmp_path):
    """A line that is meant as an item, and a command that would not run, are faults with their lines."""
    text, expected = CHECKLISTS[name]
    path = tmp_path / "list.md"
    path.write_text(text)
    assert [(one.line, one.column, one.text) for one in plans.check(path)] == expected


def test_what_is_no_item_of_a_checklist(tmp_path):
    """Ticked boxes in any spelling, links, references, code, and a command that is named twice."""
    path = tmp_path / "list.md"
    path.write_text(
        "- [ ] a: `true`, again `true`\n- [x] b\n-[x] c\n- [X]d\n- [](x.md)\n- [ ]: x\n- [1] e\n"
        "```\n- [] f\n- [ ] g\n```\n"
    )
    assert [step.id for step in plans.read(path).steps] == ["a-again"]


def test_inputs_are_checked_with_the_file():
    """Missing, unknown and of another type; those that the file names have its line."""
    text = "name: p\ninput:\n  version: null\n  dry: false\nsteps:\n- {id: a, run: 'true'}\n"
    found = [(fault.line, fault.text) for fault in plans.check(text, {"dry": "yes", "x": 1})]
    assert found == [
        (0, "plan p takes no input `x`; there is `version`, `dry`"),
        (3, "the input `version` is missing: give it with `--input version=VALUE`"),
        (4, 'the input `dry` is "yes", and must be true or false'),
    ]


def test_remarks_do_not_stop_a_plan():
    """Commands that wait for each other are named."""
    text = "name: p\nbudget: {usd: 5}\nsteps:\n- {id: a, run: 'true'}\n- {id: b, run: 'true'}\n"
    assert [(one.line, one.remark) for one in plans.check(text)] == [(5, True)]
    assert plans.read(text).budget == {"usd": 5}


VALUES = Values(
    {"a": {"b": [1, 2]}, "t": 'x\n{"k": 1}', "n": None, "input": {"v": "1.2"}},
    {"s"}.__contains__,
    {"f"}.__contains__,
)


EXPRESSIONS = [
    ("a.b[1] == 2 and not n", True),
    ("len(a.b) >= 2 and input.v in ['1.2']", True),
    ("t.lines[1].json.k", 1),
    ("skipped(s) and failed('f') and not skipped(f)", True),
    ("1 < 2 < 2", False),
    ("a['b'][-1]", 2),
    ("{'x': [true, null]}", {"x": [True, None]}),
]
WITHOUT_VALUE = ["a.c", "a.b.append", "n.x", "a < 1", "a.b[9]", "len(1)", "t.upper", "zz", "()" * 2000]


def test_expressions():
    """What a plan can compute; all else is one sentence, and no method of Python is reached."""
    assert [evaluate(text, VALUES) for text, _ in EXPRESSIONS] == [value for _, value in EXPRESSIONS]
    for text in WITHOUT_VALUE:
        with pytest.raises(BadExpression):
            evaluate(text, VALUES)
