"""`run_plan`: what runs, in which scope, what is skipped, what fails, and what a resume does."""

import random
import shutil
import threading
from pathlib import Path

import pytest
from tests.engine import plan_functions

from holdfast import CommandFailed, Holdfast, plans
from holdfast.errors import BadInput, CodeNotFound, NotApproved
from holdfast.plans import templates

ALL_KINDS = """
name: all
input: {version: null, dry: false}
parallel: 2
checkpoint_every: 3
defaults: {effect: idempotent, timeout: 1m}
steps:
- id: files
  python: tests.engine.plan_functions:names
- id: each
  foreach: files
  run: [echo, "${item} ${index}", "${input.version}"]
- id: up
  foreach: each
  python: tests.engine.plan_functions:note
  with: {x: "${item.stdout.lines[0]}"}
- {id: nap, sleep: 1ms}
- id: never
  when: input.dry
  run: "false"
- {id: after-never, needs: [never], run: "false"}
- id: anyway
  needs: [nap]
  when: skipped(never)
  python: tests.engine.plan_functions:lengthen
  with: {x: "${up}"}
  milestone: counted
- {id: heard, wait: go}
- id: ok
  approve: "Release ${input.version}?"
  show: up
- id: told
  needs: [ok]
  run: [sh, -c, 'echo "$WHO $1"', sh, "${heard.x}"]
  env: {WHO: "${ok.by}"}
  stdin: "${files}"
"""


@pytest.fixture(autouse=True)
def _fresh():
    plan_functions.ran.clear()
    plan_functions.failing.clear()


def keys(hf, run_id):
    return sorted(step.key for step in hf.steps(run_id))


def decided(hf, run, run_id, *, approve=True):
    """Wait for the gate, and decide it."""
    assert run.rested.wait(30)
    gate = next(gate for gate in hf.gates(run_id) if gate.kind == "approval")
    (hf.approve if approve else hf.reject)(run_id, gate.key, by="ann", comment="so")


def test_every_kind_of_step(hf):
    """The results by id, and keys that are made of ids."""
    run = hf.with_id("all").start(plans.run_plan, plans.read(ALL_KINDS), {"version": "; rm -rf /"})
    hf.signal("all", "go", {"x": [1, 2]})
    decided(hf, run, "all")
    assert run.result(30) == {
        "files": ["a", "b", "c"],
        "each": [
            {"exit_code": 0, "stdout": f"{name} ; rm -rf /\n", "stderr": ""} for name in ("a 0", "b 1", "c 2")
        ],
        "up": ["a 0 ; rm -rf /", "b 1 ; rm -rf /", "c 2 ; rm -rf /"],
        "nap": None,
        "anyway": 3,
        "heard": {"x": [1, 2]},
        "ok": {"outcome": "approved", "by": "ann", "comment": "so"},
        "told": {"exit_code": 0, "stdout": "ann [1, 2]\n", "stderr": ""},
    }  # fmt: skip
    assert keys(hf, "all") == sorted(
        ["files[1]/files#1", "nap[1]/sleep#1", "anyway[1]/anyway#1", "anyway[1]/counted#1", "heard[1]/go#1",
         "ok[1]/ok#1", "told[1]/told#1",
         "checkpoint[1]/after-3-steps#1", "checkpoint[1]/after-6-steps#1",
         *(f"{id}[1]/{id}[{n}]/{id}#1" for id in ("each", "up") for n in (1, 2, 3))]
    )  # fmt: skip
    assert [(one.id, one.title) for one in hf.runs()] == [("all", "all version=; rm -rf /")]


def test_a_value_stays_one_argument(hf, tmp_path):
    """Whatever an input holds, it is one argument of the program; as the program of a shell it is refused."""
    text = "name: p\ninput: {x: null, sh: sh}\ndefaults: {effect: idempotent}\nsteps:\n"
    text += "- {id: a, run: [printf, '<%s>', '${input.x}', b]}\n"
    for x in ("; rm -rf /", "a b", "$(id)", "'\"", "", "-n", ["p", "q"]):
        shown = x if isinstance(x, str) else '["p", "q"]'
        result = hf.run(plans.run_plan, plans.read(text), {"x": x})
        assert result["a"]["stdout"] == f"<{shown}><b>"
    sneaky = text.replace("[printf, '<%s>', '${input.x}', b]", "['${input.sh}', -c, '${input.x}']")
    with pytest.raises(BadInput, match="would read a value as a program"):
        hf.run(plans.run_plan, plans.read(sneaky), {"x": f"touch {tmp_path}/touched"})
    assert not (tmp_path / "touched").exists()
    for argv, place in (
        (("ssh", "-i", "KEY", "-p", "22", "HOST", "ls", "DIR"), 7),
        (("ssh", "-oBatchMode=yes", "HOST", "DIR"), 3),
        (("watch", "-n", "N", "ls", "DIR"), 4),
        (("ssh", "-i", "KEY", "HOST", "ls"), None),
    ):
        assert templates.reads_as_code(argv, tuple(word.isupper() for word in argv)) == place, argv


def test_a_secret_input_is_in_no_view(hf):
    """The title of an approval is redacted, and its key has no value in it: keys are typed by people."""
    secret = "sk-ant-api03-" + "a" * 40
    text = "name: p\ninput: {x: null}\nsteps:\n- {id: ok, approve: 'Use ${input.x}?'}\n"
    run = hf.with_id("p").start(plans.run_plan, plans.read(text), {"x": secret})
    assert run.rested.wait(30)
    views = [
        hf.gates("p"),
        hf.steps("p"),
        hf.get("p"),
        hf.get("p").steps,
        hf.events("p"),
        hf.runs(),
        hf.prime(),
    ]
    assert [secret in repr(view) for view in views] == [False] * len(views)


def test_a_failure(open_hf):
    """Siblings end, dependents do not begin, a handler does; the resume tries only what failed."""
    text = """
name: p
steps:
- {id: bad, python: "tests.engine.plan_functions:note", with: {x: bad}}
- {id: sibling, python: "tests.engine.plan_functions:note", with: {x: s}}
- {id: later, needs: [sibling], python: "tests.engine.plan_functions:note", with: {x: l}}
- {id: dependent, needs: [bad], python: "tests.engine.plan_functions:note", with: {x: d}}
- {id: handler, when: failed(bad), python: "tests.engine.plan_functions:note", with: {x: h}}
"""
    plan_functions.failing["bad"] = 2
    hf = open_hf()
    with pytest.raises(ValueError, match="bad failed"):
        hf.with_id("p").run(plans.run_plan, plans.read(text), {})
    assert plan_functions.steps_that_ran() == [
        f"{id}[1]/{id}#1" for id in ("bad", "handler", "later", "sibling")
    ]
    with pytest.raises(ValueError, match="bad failed"):
        hf.resume("p").result(30)
    hf.close()
    assert open_hf().resume("p").result(30) == {
        "bad": "bad", "sibling": "s", "later": "l", "dependent": "d",
    }  # fmt: skip
    assert plan_functions.steps_that_ran().count("bad[1]/bad#1") == 3 and len(plan_functions.ran) == 7


def test_a_rejected_approval_fails_its_step(hf):
    """With the command that asks again; after that rewind the approval counts."""
    text = "name: p\nsteps:\n- {id: ok, approve: Ship?}\n"
    text += "- {id: b, needs: [ok], python: 'tests.engine.plan_functions:note'}\n"
    run = hf.with_id("p").start(plans.run_plan, plans.read(text), {})
    decided(hf, run, "p", approve=False)
    with pytest.raises(
        NotApproved, match=r"'Ship\?' was rejected by ann: so; `holdfast rewind p .*asks again"
    ):
        run.result(30)
    assert plan_functions.ran == []
    hf.rewind("p", "before:ok[1]/ok#1")
    run = hf.resume("p")
    decided(hf, run, "p")
    assert run.result(30)["b"] is None


def test_the_file_may_go_or_change(open_hf, tmp_path, monkeypatch):
    """The plan is the run's argument: the file is not read again, and what it says otherwise is known."""
    monkeypatch.chdir(tmp_path)
    Path("inner.yaml").write_text(
        "name: inner\nsteps:\n- {id: x, python: 'tests.engine.plan_functions:note', with: {x: 1}}\n"
    )
    text = "name: p\nsteps:\n- {id: ok, approve: Go?}\n- {id: sub, needs: [ok], plan: inner.yaml}\n"
    Path("p.yaml").write_text(text)
    hf = open_hf()
    for run_id in ("gone", "changed"):
        assert hf.with_id(run_id).start(plans.run_plan, plans.read("p.yaml"), {}).rested.wait(30)
    hf.close()
    Path("inner.yaml").unlink()
    Path("p.yaml").write_text(text)
    hf = open_hf()
    assert "p.yaml has a fault: 4:" in hf.plan_changes("changed")[0]
    Path("p.yaml").write_text(text.replace("Go?", "Really?").replace("plan: inner.yaml", "sleep: 1"))
    assert hf.plan_changes("changed") == [
        "step `ok` changed: what it does", "step `sub` changed: kind, sleep, plan",
    ]  # fmt: skip
    for run_id in ("changed", "gone"):
        hf.approve(run_id, "ok[1]/ok#1")
        assert hf.resume(run_id).result(30)["sub"] == {"x": 1}
        Path("p.yaml").unlink(missing_ok=True)
    assert hf.plan_changes("changed") == []
    plan = hf.plan("gone")
    assert plan is not None and plan.step("sub").plan.name == "inner"


def test_order_of_completion(tmp_path):
    """However steps overtake each other, the keys and the results are the same."""
    text = """
name: p
parallel: 3
checkpoint_every: 2
steps:
- {id: a, python: "tests.engine.plan_functions:slowly", with: {x: [1, 2, 3]}}
- {id: b, python: "tests.engine.plan_functions:slowly", with: {x: 5}}
- {id: c, foreach: a, python: "tests.engine.plan_functions:slowly", with: {x: "${item}"}}
- {id: d, needs: [b], when: b > 9, python: "tests.engine.plan_functions:slowly", with: {x: 7}}
- {id: e, needs: [b], when: skipped(d), python: "tests.engine.plan_functions:slowly", with: {x: "${c}"}}
- {id: f, foreach: c, python: "tests.engine.plan_functions:slowly", with: {x: "${index}"}}
"""
    plan, seen, orders = plans.read(text), set(), set()
    with Holdfast(tmp_path / "home", durability="process") as hf:
        for seed in range(200):
            plan_functions.turns = random.Random(seed)
            run_id = f"r{seed}"
            result = hf.with_id(run_id).run(plans.run_plan, plan, {})
            steps = [step.key for step in hf.steps(run_id)]
            orders.add(tuple(steps))
            seen.add((str(result), tuple(sorted(steps))))
    assert len(seen) == 1
    assert len(orders) > 20


LIVES = """
name: outer
steps:
- {id: list, python: "tests.engine.plan_functions:names"}
- {id: each, foreach: list, python: "tests.engine.plan_functions:note", with: {x: "${item}"}}
- {id: no, when: len(list) > 9, python: "tests.engine.plan_functions:note"}
- {id: ok, needs: [each], approve: Go on?, show: each}
- {id: sub, needs: [ok], plan: inner.yaml, with: {x: "${each[2]}"}, milestone: half}
- id: last
  needs: [sub]
  when: skipped(no)
  python: "tests.engine.plan_functions:note"
  with: {x: "${sub.x}"}
"""


class Person(threading.Thread):
    """Approves whatever waits, from a Holdfast of their own."""

    def __init__(self, home):
        super().__init__()
        self._home, self._over = home, threading.Event()

    def run(self):
        with Holdfast(self._home, durability="process") as hf:
            while not self._over.wait(0.005):
                for gate in hf.gates():
                    hf.approve(gate.run_id, gate.key)

    def leave(self):
        self._over.set()
        self.join()


def test_killed_at_every_event(tmp_path, crashes, monkeypatch):
    """A plan with foreach, when, approve and a sub-plan dies after each of its appends in turn: it ends as
    the undisturbed one, and no step runs again whose end was recorded."""
    monkeypatch.chdir(tmp_path)
    Path("inner.yaml").write_text(
        "name: inner\ninput: {x: null}\nsteps:\n"
        "- {id: x, python: 'tests.engine.plan_functions:note', with: {x: '${input.x}'}}\n"
        "- {id: y, foreach: [1, 2], python: 'tests.engine.plan_functions:note', with: {x: '${item}'}}\n"
    )
    plan = plans.read(LIVES)
    outcomes, appends = [], 0
    while not outcomes or outcomes[-1][1]:
        died = 0
        ended: set[str] = set()
        again: list[str] = []

        def told(event, ended=ended):
            if event.type in ("StepRan", "StepCompleted"):
                ended.add(f"{event.run_id}:0:{event.data['key']}")

        class Seen(list):
            def append(self, key, ended=ended, again=again):
                if key in ended:
                    again.append(key)
                super().append(key)

        monkeypatch.setattr(plan_functions, "ran", Seen())
        home = tmp_path / f"home{appends}"
        Holdfast(home, durability="process").close()
        person = Person(home)
        person.start()
        try:
            hf = Holdfast(home, durability="process", on_event=told)
            crashes.arm(hf, appends)
            try:
                result = hf.with_id("p").run(plans.run_plan, plan, {})
            except Exception:
                died = 1
            crashes.bury(hf)
            with Holdfast(home, durability="process", on_event=told) as hf:
                result = hf.with_id("p").run(plans.run_plan, plan, {})
                assert list(hf._store.verify()) == []
                kept = keys(hf, "p")
        finally:
            person.leave()
        assert again == []
        outcomes.append(((str(result), tuple(kept)), died))
        shutil.rmtree(home)
        appends += 1
    assert len({outcome for outcome, _ in outcomes}) == 1
    assert appends > 8


def test_a_fork_with_another_plan(hf, tmp_path, monkeypatch):
    """Reordered and extended: steps that say the same, and need only such steps, keep their results."""
    monkeypatch.chdir(tmp_path)
    step = '- {{id: {}, needs: [{}], python: "tests.engine.plan_functions:note", with: {{x: {}}}}}\n'
    old = "name: p\ncheckpoint_every: 1\nsteps:\n" + step.format("a", "", 1) + step.format("b", "a", 2)
    old += step.format("c", "b", 3) + step.format("d", "", 4) + step.format("bad", "d", "bad")
    plan_functions.failing["bad"] = 1
    with pytest.raises(ValueError):
        hf.with_id("old").run(plans.run_plan, plans.read(old), {})
    new = "name: p\nsteps:\n" + step.format("d", "", 4) + step.format("bad", "d", "bad")
    new += (
        step.format("e", "c", 5)
        + step.format("c", "b", 3)
        + step.format("b", "a", 22)
        + step.format("a", "", 1)
    )
    Path("new.yaml").write_text(new)
    plan_functions.ran.clear()
    preview = hf.fork("old", plan_file="new.yaml", dry_run=True)
    assert preview.kept == ("a[1]/a#1", "d[1]/d#1")
    made = hf.fork("old", into="new", plan_file="new.yaml")
    assert made.kept == preview.kept
    result = hf.resume("new").result(30)
    assert result == {"d": 4, "bad": "bad", "e": 5, "c": 3, "b": 22, "a": 1}
    assert plan_functions.steps_that_ran() == [f"{id}[1]/{id}#1" for id in ("b", "bad", "c", "e")]
    text = "name: p\ninput: {v: 1, w: 1}\nsteps:\n" + step.format("a", "", "'${input.v}'")
    text += step.format("b", "", "'${input.w}'")
    hf.with_id("inputs").run(plans.run_plan, plans.read(text), {"w": 1})
    Path("new.yaml").write_text(text.replace("{v: 1, w: 1}", "{v: 2, w: 2}"))
    assert hf.fork("inputs", plan_file="new.yaml", dry_run=True).kept == ("b[1]/b#1",)
    hf.with_id("plain").run(plans.run_plan, plans.read(new), {})
    with pytest.raises(BadInput, match="needs a point"):
        hf.fork("plain")


def test_rewind_to_a_plan_step_with_files(tmp_path, monkeypatch):
    """By the step's id; its files are those of that moment, and it runs again. A tool reads them."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    text = """
name: p
steps:
- id: one
  python: "tests.engine.plan_functions:write"
  with: {path: a, text: "1"}
  effect: workspace
  milestone: first
- {id: two, needs: [one], run: [sh, -c, "echo 2 >> a; echo b > b"]}
- {id: look, needs: [two], tool: read, with: {path: a}, timeout: 1m}
- {id: found, run: [echo, "${look.text}"]}
"""
    with Holdfast(tmp_path / "home", durability="process", workspace=root) as hf:
        result = hf.with_id("p").run(plans.run_plan, plans.read(text), {})
        assert result["found"]["stdout"] == "12\n\n"
        assert (root / "a").read_text() == "12\n" and (root / "b").exists()
        hf.rewind("p", "first")
        assert (root / "a").read_text() == "1" and not (root / "b").exists()
        hf.resume("p").result(30)
        assert (root / "a").read_text() == "12\n"
        hf.rewind("p", "before:two")
        assert (root / "a").read_text() == "1"


def test_runtime_mistakes_are_sentences(hf, tmp_path, monkeypatch):
    """An expression without a value, a foreach over no list, a function that is gone, a missing input."""
    monkeypatch.chdir(tmp_path)
    for step, error, message in (
        ("- {id: b, foreach: a, run: 'true'}", BadInput, "foreach: `a` is no list"),
        ("- {id: b, when: a.x > 1, run: 'true'}", BadInput, "`a.x > 1`: a number has no `x`"),
        ("- {id: b, python: 'tests.engine.plan_functions:gone'}", CodeNotFound, "there is no gone in it"),
        ("- {id: b, run: [sh, -c, 'exit 3'], effect: idempotent}", CommandFailed, "ended with code 3"),
    ):
        first = "{id: a, python: 'tests.engine.plan_functions:note', with: {x: 7}}"
        text = f"name: p\nsteps:\n- {first}\n{step}\n"
        with pytest.raises(error, match=message):
            hf.run(plans.run_plan, plans.read(text), {})
    with pytest.raises(BadInput, match="the input `v` is missing"):
        hf.run(plans.run_plan, plans.read("name: p\ninput: {v: null}\nsteps:\n- {id: a, run: 'true'}\n"), {})
