"""Defects that the tests must see: each an edit of the source, and the test that catches it.

A test that never fails proves nothing. `python -m tests.mutants` makes each edit in a copy of the
source and runs the test that is named with it: unchanged it must pass, changed it must fail.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which is there exactly once, by `new`, in a file under src/holdfast."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    name: str
    """What is wrong with it, as one would say it in a review."""
    test: str
    edits: tuple[Edit, ...]


def mutant(name: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(name, test, tuple(Edit(*edit) for edit in edits))


SQLITE = "tests/contract/test_sqlite.py::TestSqlite::"
STORE = "tests/contract/test_sqlite_store.py::"
WRITER = "tests/contract/test_one_writer.py::"
ENGINE = "tests/engine/"
KERNEL = "tests/kernel/"
CRASH = "tests/crash/"
EXACT = "tests/engine/test_exact.py::"
DELIVERY = "tests/engine/test_delivery.py::"
FILES = "tests/acceptance/test_files.py::"
GIT = "tests/acceptance/test_git_rollback.py::"
REPAIR = "tests/operations/test_repairing.py::"
DAMAGED_ROWS = "tests/operations/test_repairing_damaged_rows.py::"
DELETIONS = "tests/operations/test_repairing_deletions.py::"
NAMES = "tests/operations/test_repairing_names.py::"
BACKUP = "tests/acceptance/test_backup.py::"
TRACKER = "tests/tracker/test_tracker.py::"
IN_RUNS = "tests/engine/test_tasks_in_runs.py::"
REVERSAL = "tests/engine/test_reversal.py::"
BUDGETS = "tests/engine/test_budgets.py::"
EVIDENCE = "tests/agents/test_evidence.py::"
ROUTER = "tests/engine/test_router.py::"
AGENT = "tests/agents/test_command_agent.py::"
DELIVER = "tests/agents/test_deliver.py::"

MUTANTS = (
    # What is acknowledged
    mutant(
        "a step is acknowledged before its commit",
        STORE + "test_what_was_acknowledged_survives_kill_9",
        (
            "store/sqlite/store.py",
            "            self._group.submit(append)\n",
            "            self._group.submit_soon(append, lambda _: None)\n",
        ),
    ),
    mutant(
        "a commit that failed is acknowledged",
        STORE + "test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room",
        (
            "store/sqlite/group.py",
            "        if item.error is not None:\n            raise item.error\n",
            "",
        ),
    ),
    mutant(
        "what follows a lost append is written all the same",
        ENGINE + "test_interrupted.py::test_what_follows_a_lost_append_is_lost_with_it",
        (
            "store/sqlite/commit.py",
            "        fate.error = fate.error or error\n",
            "        pass\n",
        ),
        (
            "store/sqlite/store.py",
            "                item.fate.error = error\n",
            "                pass\n",
        ),
    ),
    mutant(
        "a decision is reported before it is committed",
        ENGINE + "test_unacknowledged.py::test_a_decision_is_not_told_before_it_is_on_the_disk",
        (
            "engine/execution/execution.py",
            "            requests[:] = inbox.take_in(recorded, sure=False)\n",
            "            requests[:] = inbox.take_in(recorded, sure=True)\n            inbox.wake()\n",
        ),
    ),
    mutant(
        "an owner's command is decided on what was lost",
        SQLITE + "test_after_a_loss_nothing_of_the_same_fate_is_written",
        (
            "store/sqlite/commit.py",
            "        self.fate = fate\n",
            "        self.fate = None\n",
        ),
    ),
    mutant(
        "nothing is ever synced",
        CRASH + "test_power.py::test_sample[sequential]",
        (
            "store/sqlite/commit.py",
            '"PRAGMA synchronous=FULL" if full else "PRAGMA synchronous=NORMAL"',
            '"PRAGMA synchronous=OFF"',
        ),
    ),
    mutant(
        "a step is acknowledged before it is on the disk",
        CRASH + "test_power.py::test_sample[together]",
        (
            "store/sqlite/commit.py",
            '"PRAGMA synchronous=FULL" if full else "PRAGMA synchronous=NORMAL"',
            '"PRAGMA synchronous=NORMAL"',
        ),
    ),
    mutant(
        "the end of a run is acknowledged before it is on the disk",
        CRASH + "test_power.py::test_sample[post]",
        (
            "engine/runs/lifecycle.py",
            "                entry = execution.append_of((*saved, *ending.commands), blobs=ending.blobs)\n",
            "                entry = execution.append_of((*saved, *ending.commands), durable=False)\n",
        ),
    ),
    mutant(
        "the deleted store is written on",
        "tests/acceptance/test_store_faults.py::test_store_deleted_under_a_run",
        (
            "store/sqlite/store.py",
            ".write(batch)\n                self._check_file()\n",
            ".write(batch)\n",
        ),
    ),
    mutant(
        "the feed shows what is not on the disk",
        SQLITE + "test_the_feed_shows_nothing_past_the_last_synced_commit",
        (
            "store/sqlite/queries.sql",
            "SELECT position, hash FROM events WHERE synced = 1 ORDER BY",
            "SELECT position, hash FROM events ORDER BY",
        ),
    ),
    mutant(
        "a large append is cut into several commits",
        WRITER + "test_a_large_append_is_whole_or_not_there",
        ("store/sqlite/commit.py", "        return self.rows <= _MOST_ROWS\n", "        return True\n"),
    ),
    # Who may write
    mutant(
        "the epoch of an owner is not checked",
        SQLITE + "test_an_owner_is_fenced_off_by_a_later_claim",
        (
            "store/sqlite/log.sql",
            "    WHERE id = NEW.stream AND version = NEW.version - 1 AND epoch = NEW.epoch;",
            "    WHERE id = NEW.stream AND version = NEW.version - 1;",
        ),
        (
            "store/sqlite/commit.py",
            "            elif head is None or head.epoch != item.epoch or item.begins:",
            "            elif head is None or item.begins:",
        ),
    ),
    mutant(
        "an append whose companion raised is written",
        SQLITE + "test_a_companion_that_raises_fails_its_append",
        ("store/sqlite/commit.py", '            db.execute("ROLLBACK TO companions")\n', ""),
    ),
    mutant(
        "an append and its companions are two commits",
        CRASH + "test_points.py::test_kills_around_companions",
        (
            "store/sqlite/commit.py",
            "            for companion in item.also:\n                self._write_companion(",
            '            db.execute("COMMIT")\n'
            '            db.execute("BEGIN IMMEDIATE")\n'
            '            db.execute("SAVEPOINT companions")\n'
            "            for companion in item.also:\n                self._write_companion(",
        ),
    ),
    mutant(
        "companions without events are committed for a stale owner",
        SQLITE + "test_an_append_that_is_sealed_empty_still_carries_its_companions",
        (
            "store/sqlite/commit.py",
            "    if refused and (item.events or item.also):\n",
            "    if refused and item.events:\n",
        ),
    ),
    mutant(
        "an append overtakes the companion that writes to its stream in the same batch",
        SQLITE + "test_companions_of_one_batch_see_each_other",
        (
            "store/sqlite/commit.py",
            "                singly.update(companion.source.stream for companion in item.also)\n",
            "",
        ),
    ),
    mutant(
        "a folded state has what was not acknowledged",
        SQLITE + "test_what_is_lost_is_not_folded",
        (
            "store/folded.py",
            "        self._version = recorded.version\n",
            "        self._version = recorded.version\n        self.acknowledge()\n",
        ),
    ),
    mutant(
        "the head is swapped without being compared",
        WRITER + "test_two_stores_on_one_file_do_not_overwrite_each_other",
        (
            "store/sqlite/log.sql",
            "    WHERE id = NEW.stream AND version = NEW.version - 1 AND epoch = NEW.epoch;",
            "    WHERE id = NEW.stream AND epoch = NEW.epoch;",
        ),
        (
            "store/sqlite/migrations/0001_initial.sql",
            "CREATE UNIQUE INDEX events_by_stream",
            "CREATE INDEX events_by_stream",
        ),
    ),
    mutant(
        "a group of projections misses the beginning of a run",
        "tests/contract/test_projection_groups.py::test_a_group_that_looks_at_the_beginning_of_a_run_gets_it",
        ("store/sqlite/projections.py", """ if f"'{type}'" not in others)""", ")"),
    ),
    mutant(
        "the write lock is not taken",
        WRITER + "test_the_gate_is_held_during_a_commit_and_free_after_it",
        (
            "store/sqlite/write_lock.py",
            "                flock(self._fd, LOCK_EX | LOCK_NB)  # by every commit: no call in between\n",
            "                pass\n",
        ),
    ),
    mutant(
        "a live owner is robbed",
        ENGINE + "test_start.py::test_the_same_id_in_two_processes_is_held",
        (
            "engine/runs/claim.py",
            "    if not force and owners.is_alive(engine.home, state.owner):\n",
            "    if not force and False:\n",
        ),
    ),
    mutant(
        "a forked child keeps the owner's lock",
        ENGINE + "test_ownership.py::test_a_forked_child_does_not_keep_the_parents_lock",
        ("engine/ownership/owners.py", "os.register_at_fork(after_in_child=_drop_all)\n", ""),
    ),
    mutant(
        "a forked child keeps the write lock",
        STORE + "test_a_forked_child_does_not_keep_the_gate_shut",
        (
            "store/sqlite/store.py",
            "        self._write_lock.close()  # or this child",
            "        # or this child",
        ),
    ),
    mutant(
        "takeover does not wait for the dead owner's command",
        ENGINE + "test_takeover.py::test_takeover_waits_for_the_dead_owners_command",
        (
            "engine/ownership/dead_owner.py",
            "        if not wait_until_dead(lock, max(0.0, deadline - time.monotonic())):\n",
            "        if False:\n",
        ),
    ),
    # What the log says
    mutant(
        "the chain is not checked when a run is loaded",
        SQLITE + "test_a_changed_history_is_not_loaded",
        (
            "store/sqlite/store.py",
            "sound = version == expected and hash == link(previous, name, version, type, at, payload)",
            "sound = version == expected",
        ),
    ),
    mutant(
        "audit does not compare heads with the log",
        STORE + "test_verify_says_where",
        (
            "store/sqlite/audit.py",
            "    yield from _verify_heads(there, walks, known)\n",
            "    yield from ()\n",
        ),
    ),
    mutant(
        "audit does not compare projections with the log",
        SQLITE + "test_verify_finds_what_was_changed",
        ("store/sqlite/audit.py", "        yield from _verify_projections(path)\n", ""),
    ),
    mutant(
        "audit does not read tables that are not of the log",
        DAMAGED_ROWS + "test_a_table_that_is_not_of_the_log",
        ("store/sqlite/audit.py", "        _read_others(db)\n", ""),
    ),
    mutant(
        "a blob is written in another transaction than its event",
        SQLITE + "test_blobs_are_written_with_the_events_that_name_them",
        (
            "store/sqlite/commit.py",
            "            parts = self._sort(batch)\n",
            "            for one in batch:\n"
            "                for blob in getattr(one, 'blobs', ()):\n"
            "                    self._db.execute(sql.query('put_blob'), blob)\n"
            "            parts = self._sort(batch)\n",
        ),
    ),
    mutant(
        "a rewind forgets the steps that are only in the log",
        SQLITE + "test_a_rewind_takes_over_the_steps_that_ran",
        ("store/sqlite/runs.sql", "    FROM main.steps\n", "    FROM main.step_rows\n"),
    ),
    # What a step is
    mutant(
        "a recorded result is returned for other arguments",
        ENGINE + "test_divergence.py::test_other_arguments_diverge",
        (
            "engine/execution/execution.py",
            "        if digest and past.digest != digest and past.digest not in older():\n",
            "        if False:\n",
        ),
    ),
    mutant(
        "a step's identity is fixed when it is awaited",
        ENGINE + "test_scopes.py::test_identity_is_fixed_when_a_step_is_called",
        (
            "engine/primitives/step.py",
            "    call = step.call(scope, args, kwargs)\n"
            "    performing = task_driver.perform_call(call) if call.ordinal "
            "else task_driver.perform_keyed(call)\n"
            '    call.execution.unawaited.expect("step", step.name, performing)\n'
            "    return performing\n",
            "    async def later() -> Any:\n"
            "        return await aio.perform_call(step.call(scope, args, kwargs))\n\n"
            "    return later()\n",
        ),
    ),
    mutant(
        "failed attempts are counted in memory",
        ENGINE + "test_retry.py::test_attempts_are_counted_across_a_crash",
        (
            "engine/execution/perform.py",
            "    failures = past.failures if past is not None else 0\n",
            "    failures = 0\n",
        ),
    ),
    mutant(
        "a once step that was cut off runs again",
        ENGINE + "test_once.py::test_cut_off_without_verify_needs_attention",
        (
            "engine/execution/perform.py",
            '    elif past.status == "in_doubt" or (past.status == "running" and past.effect == "once"):\n',
            '    elif past.status == "in_doubt":\n',
        ),
        (
            "kernel/decide.py",
            '        if step.status not in ("running", "retrying", "reopened"):\n',
            '        if step.status not in ("running", "retrying", "reopened", "in_doubt"):\n',
        ),
    ),
    mutant(
        "a once step begins before its intent is written",
        ENGINE + "test_once.py::test_the_intent_is_on_the_disk_before_the_body_runs",
        (
            "engine/execution/call.py",
            '        self.intent_first = intent_first or effect != "idempotent" or reserve is not None\n',
            "        self.intent_first = intent_first\n",
        ),
    ),
    mutant(
        "the intent of a once step is not synced",
        ENGINE + "test_once.py::test_the_intent_is_on_the_disk_before_the_body_runs",
        (
            "engine/execution/perform.py",
            'yield run.make_append(events, durable=spec.effect != "idempotent" or held is not None)',
            "yield run.make_append(events, durable=False)",
        ),
    ),
    mutant(
        "a recorded value is written after the step that used it",
        ENGINE + "test_values.py::test_values_ride_with_the_next_commit",
        (
            "engine/execution/execution.py",
            "            append.events = (*riding, *append.events)\n",
            "            append.events = (*append.events, *riding)\n",
        ),
    ),
    mutant(
        "a slow step leaves no trace before it ends",
        ENGINE + "test_steps.py::test_a_slow_step_is_in_the_log_before_it_ends",
        (
            "engine/execution/flusher.py",
            "            if now - one.since >= self._after_s and not one.taken:\n",
            "            if False:\n",
        ),
    ),
    mutant(
        "a control signal can be caught with `except Exception`",
        ENGINE + "test_control.py::test_an_agents_except_exception_does_not_see_it",
        ("engine/execution/control.py", "class Control(BaseException):", "class Control(Exception):"),
    ),
    mutant(
        "an error is raised as it was live, and otherwise in replay",
        ENGINE + "test_peers_failures.py::test_lost_errors_that_cannot_be_rebuilt",
        (
            "kernel/failure.py",
            "    if round_trips(error, failure):\n        return failure, error\n",
            "    return failure, error\n",
        ),
    ),
    mutant(
        "error text is stored as it was, secrets and all",
        KERNEL + "test_failure.py::test_text_is_redacted_everywhere",
        (
            "kernel/failure.py",
            "            message=_clean(self.redact(_message(exc)), _TEXT_LIMIT),\n",
            "            message=_clean(_message(exc), _TEXT_LIMIT),\n",
        ),
    ),
    # Going back
    mutant(
        "a rewind leaves the owner before it in its rights",
        ENGINE + "test_rewind.py::test_a_dead_owner_is_fenced_off",
        (
            "kernel/generations.py",
            "version, state.epoch + 1, command",
            "version, state.epoch, command",
        ),
    ),
    mutant(
        "a rewind keeps what was recorded after the point",
        ENGINE + "test_rewind.py::test_a_rewound_run_does_again_what_came_after_the_point_and_nothing_else",
        (
            "kernel/generations.py",
            "for key, step in steps.items() if step.version <= version}",
            "for key, step in steps.items()}",
        ),
    ),
    mutant(
        "a restored generation has the signals of the one that was left",
        KERNEL + "test_generations.py::test_an_undone_rewind_gives_back_everything_whatever_happened_since",
        (
            "kernel/generations.py",
            "    for name in Generation.__struct_fields__:\n        setattr",
            '    for name in {*Generation.__struct_fields__} - {"signals"}:\n        setattr',
        ),
    ),
    mutant(
        "a once step of a child run is not looked at",
        ENGINE + "test_rewind.py::test_once_steps_of_child_runs_count_too",
        (
            "operations/repeats.py",
            '        found += [f"{step.key} of {child}" for step in done_once(again(state, {}))]\n',
            "        pass\n",
        ),
    ),
    mutant(
        "a rewind is done without a record of it",
        ENGINE + "test_rewind.py::test_undo_brings_the_old_generation_back_and_can_be_undone",
        (
            "operations/performing.py",
            '        return [Decision("run", events, epoch), own, *decided.decisions]\n',
            '        return [Decision("run", events, epoch), NO_EVENTS, *decided.decisions]\n',
        ),
    ),
    mutant(
        "a follower that could not execute a run waits for others to write something",
        ENGINE + "test_serving.py::test_what_failed_is_tried_again_though_nothing_else_happens[alone]",
        ("engine/runs/serving.py", "        if again or pulse", "        if pulse"),
    ),
    mutant(
        "a run whose code ends its thread keeps its place",
        ENGINE + "test_serving.py::test_code_that_ends_its_thread_leaves_room_for_others",
        (
            "engine/runs/serving.py",
            "        except BaseException as refused:",
            "        except Exception as refused:",
        ),
    ),
    # Files
    mutant(
        "what a cut-off command did is left for the next attempt",
        FILES + "test_a_command_killed_half_way_is_as_if_it_had_run_once",
        (
            "engine/files/workspace_step.py",
            "<= self._run.keeps_until:\n            return None\n",
            "<= self._run.keeps_until or True:\n            return None\n",
        ),
    ),
    mutant(
        "an attempt is rolled back without what it did to git",
        GIT + "test_a_killed_commit_is_one_commit_and_kept",
        ("engine/files/git_rollback.py", "if to == left and not repository.is_shared:", "if to is not None:"),
    ),
    mutant(
        "what another worktree committed is rolled back with an attempt",
        GIT + "test_another_worktree_keeps_what_it_did_meanwhile[killed-switched away]",
        ("workspace/git/worktrees.py", "        if not self.others:\n", "        if True:\n"),
    ),
    mutant(
        "what a person commits during an isolated step counts as the run's",
        GIT + "test_what_a_person_does_in_the_root_during_an_isolated_step[completed]",
        (
            "engine/execution/call.py",
            '        self.in_root = touches_files and isolate != "copy"\n',
            "        self.in_root = touches_files\n",
        ),
    ),
    mutant(
        "files are rolled back though it is not known what happened to the repository",
        GIT + "test_a_branch_whose_name_is_not_text",
        ("engine/files/git_rollback.py", "    if not repository.exists:\n", "    if True:\n"),
    ),
    mutant(
        "a commit on top of an attempt's own is rolled back with it",
        GIT + "test_somebody_who_commits_on_top_is_never_lost[killed]",
        ("workspace/git/ref_times.py", "self._changed_ns(ref) > self.until_ns]", "not ref]"),
    ),
    mutant(
        "a backup leaves out the saved files",
        BACKUP + "test_a_backup_is_whole",
        ("wiring/place_backups.py", "files=export if files else None,", "files=None,"),
    ),
    mutant(
        "gc removes the files of a store that a restore kept",
        BACKUP + "test_gc_keeps_the_files_of_a_kept_store",
        (
            "operations/disk_usage.py",
            "return _needed_here(engine, contents) | _needed_by_kept(engine, contents)",
            "return _needed_here(engine, contents)",
        ),
    ),
    mutant(
        "what a person changes after a crash counts as the run's",
        FILES + "test_edits_between_kill_and_resume_stay",
        ("engine/files/file_windows.py", "        return not later\n", "        return True\n"),
    ),
    mutant(
        "a person's change while the run waited is rolled back",
        ENGINE + "test_files.py::test_what_a_person_changed_in_a_gap_stays",
        (
            "kernel/file_history.py",
            'if later.place == "start" and earlier.snapshot',
            'if later.place == "nowhere" and earlier.snapshot',
        ),
    ),
    mutant(
        "a rewind that is cut off is not finished",
        FILES + "test_a_rewind_that_is_killed_is_finished",
        (
            "wiring/opening.py",
            '    if not to_look and (place.home / "operations").is_dir():\n',
            "    if False:\n",
        ),
    ),
    mutant(
        "two workspace steps work on one root at once",
        ENGINE + "test_files.py::test_many_at_once_take_turns",
        ("workspace/workspace.py", "tried(self._work_path)", "tried(self._work_path, shared=True)"),
    ),
    mutant(
        "contents that a snapshot needs are removed by gc",
        FILES + "test_du_gc_verify",
        (
            "operations/disk_usage.py",
            '    *("FilesSaved", "CheckpointTaken", "FilesPlanned",',
            '    *("FilesPlanned",',
        ),
    ),
    mutant(
        "a restore deletes before it is on the disk that it is done",
        "tests/workspace/test_unsynced.py"
        "::test_nothing_is_deleted_before_it_is_on_the_disk_that_all_is_done[at once]",
        (
            "workspace/restoring/restore_journal.py",
            "            os.fdatasync(fd)\n",
            "            if phase is not Phase.DONE:\n                os.fdatasync(fd)\n",
        ),
    ),
    mutant(
        "a directory is another one when its device has another number",
        "tests/workspace/test_identity.py::test_a_restore_is_finished_when_the_device_has_another_number",
        (
            "workspace/fs/workspace_identity.py",
            "            return True  # its path",
            "            return False  # its path",
        ),
    ),
    mutant(
        "an archived run can be started again",
        SQLITE + "test_an_archived_stream_leaves_its_record_and_nothing_else",
        (
            "store/sqlite/commit.py",
            "        if file is not None:\n            raise RunArchived(stream, file)\n",
            "        del file\n",
        ),
    ),
    mutant(
        "a stream takes the id of one that was archived",
        SQLITE + "test_after_archiving_everything_nothing_is_mistaken_for_what_was",
        (
            "store/sqlite/commit.py",
            "        id = 1 + log.version + 1\n",
            "        id = 1 + self._db.execute('SELECT coalesce(max(stream), 1) FROM events').get\n",
        ),
    ),
    mutant(
        "a run that continued while it was archived is removed",
        ENGINE + "test_archive.py::test_a_run_that_goes_on_meanwhile_stays",
        (
            "operations/archiving.py",
            "row.id in written and written[row.id].version == row.version",
            "row.id in written",
        ),
    ),
    # The same execution
    mutant(
        "recorded outcomes are delivered as soon as they are asked for",
        EXACT + "test_the_winner_of_a_race_is_the_same",
        (
            "engine/execution/task_delivery.py",
            "        if not self.is_pending(key):\n            return True\n",
            "        return True\n",
        ),
    ),
    mutant(
        "live outcomes are delivered as they are acknowledged, whatever their place",
        EXACT + "test_outcomes_that_come_together_keep_their_order",
        (
            "engine/execution/delivery.py",
            "        self._placed.append(turn)\n",
            "        self._placed.appendleft(turn)\n",
        ),
    ),
    mutant(
        "a new call does not wait for the history",
        EXACT + "test_a_renamed_helper_repeats_nothing",
        (
            "engine/execution/delivery.py",
            "        self.guarded = self.replaying or run.plays_back\n",
            "        self.guarded = run.plays_back\n",
        ),
    ),
    mutant(
        "a call that had begun need not be made again",
        EXACT + "test_a_call_that_had_begun_must_be_made_again",
        (
            "engine/execution/delivery.py",
            "            if not key and not self.unvisited:\n",
            "            if not key:\n",
        ),
    ),
    mutant(
        "a key of the user's choice is one per branch",
        EXACT + "test_a_key_of_the_users_choice_is_one_in_the_run",
        (
            "engine/execution/execution.py",
            '        key = f"{name}@{chosen}"\n',
            '        key = f"{path}{name}@{chosen}"\n',
        ),
    ),
    mutant(
        "branches of as_completed are numbered by addresses",
        EXACT + "test_as_completed_numbers_branches_in_the_order_of_its_argument",
        (
            "engine/execution/task_factory.py",
            '        if maker is None or maker.name != "as_completed":\n',
            "        if True:\n",
        ),
    ),
    mutant(
        "a set of tasks is walked in the order of addresses",
        EXACT + "test_a_group_cancels_its_tasks_in_their_order",
        (
            "engine/execution/task_factory.py",
            "        return self._hash\n",
            "        return object.__hash__(self)\n",
        ),
    ),
    mutant(
        "timers of the code's own are not recorded",
        EXACT + "test_a_timeout_of_asyncio_fires_at_the_same_place",
        (
            "engine/execution/code_timer.py",
            "        run.note(c.Record(e.TimerFired(self._scope, self._number, self._number)), self)\n",
            "        delivery.place(self)\n",
        ),
    ),
    mutant(
        "the code's clock moves while the code runs",
        EXACT + "test_the_clock_of_the_code_stands_still_between_deliveries",
        (
            "engine/execution/code_clock.py",
            "        if self._readings > _READINGS:\n",
            "        if True:\n",
        ),
    ),
    mutant(
        "the code's clock shows the real time",
        DELIVERY + "test_a_replay_reads_what_the_live_code_read",
        (
            "engine/execution/code_clock.py",
            "        now = self._began + math.ceil(elapsed_s * _GRID) / _GRID\n",
            "        now = self._real()\n",
        ),
    ),
    mutant(
        "a generator that the code closes is taken for Ctrl-C",
        EXACT + "test_a_step_in_the_clean_up_of_a_generator",
        (
            "engine/execution/execution.py",
            "        if type(unwinding) is not GeneratorExit:\n",
            "        if True:\n",
        ),
    ),
    mutant(
        "a generator that the code drops is closed outside the order",
        EXACT + "test_a_generator_that_the_code_drops",
        (
            "engine/execution/watched_loop.py",
            '            ("call_soon_threadsafe", self._soon_threadsafe),\n',
            "",
        ),
    ),
    mutant(
        "tasks have the names that asyncio gives them",
        EXACT + "test_the_names_of_tasks_are_numbered_in_the_run",
        (
            "engine/execution/task_factory.py",
            '        if kwargs.get("name") is None:\n',
            "        if False:\n",
        ),
    ),
    mutant(
        "the helper of a group commit is started when it is needed",
        "tests/contract/test_group.py::test_a_helper_that_cannot_be_started_during_a_commit_fails_only_its_submission",
        (
            "store/sqlite/group.py",
            "                self._begin_helper()  # a later commit could only fail without it\n",
            "",
        ),
    ),
    mutant(
        "the place of a gate's outcome is not recorded",
        KERNEL + "test_history.py::test_a_gate_has_its_place_where_it_was_delivered",
        (
            "kernel/history.py",
            "        return step.delivered or step.version\n",
            "        return step.version\n",
        ),
    ),
    mutant(
        "`patched` sees the calls of its own scope only",
        EXACT + "test_patched_counts_what_is_beneath_its_scope",
        (
            "engine/execution/delivery.py",
            "        if self.unvisited:\n            return True\n        path",
            "        path",
        ),
        (
            "engine/execution/delivery.py",
            "        return any(key.startswith(path) for keys in self._twins.values() for key in keys)\n",
            "        return False\n",
        ),
    ),
    mutant(
        "a retry that the code gave up is not recorded",
        EXACT + "test_a_retry_that_was_given_up_is_given_up_again",
        (
            "engine/execution/task_driver.py",
            "    await abandonable(run, key, wait)\n",
            "    await wait()\n",
        ),
    ),
    mutant(
        "two branches of parallel run code at once",
        EXACT + "test_one_branch_of_parallel_runs_code_at_a_time",
        (
            "engine/execution/thread_delivery.py",
            "        return ThreadTurn(key) if self.crews else None\n",
            "        return None\n",
        ),
        (
            "engine/execution/thread_delivery.py",
            "            if self.run.control is not None or self._holder",
            "            if True or self._holder",
        ),
    ),
    mutant(
        "a branch runs although the code has left a note out",
        "tests/engine/test_divergence.py::test_what_the_code_no_longer_notes_diverges_before_a_branch_runs",
        (
            "engine/execution/delivery.py",
            "                if is_called(step):\n",
            "                if is_awaited(step):\n",
        ),
    ),
    mutant(
        "a thread that waits for the interpreter loses its turn",
        "tests/engine/test_blocked_threads.py::test_a_thread_that_has_run_since_the_last_look_is_not_blocked",
        (
            "engine/execution/thread_delivery.py",
            "        elif seen == self._seen != _RUNS:\n",
            "        elif seen != _RUNS:\n",
        ),
    ),
    mutant(
        "an import that holdfast needs takes a turn away",
        "tests/engine/test_blocked_threads.py::test_what_holdfast_calls_is_its_own_work",
        (
            "engine/execution/thread_delivery.py",
            "    while frame is not None and _is_pythons(frame.f_code.co_filename):\n",
            "    while frame is not None and frame.f_code.co_filename == threading.__file__:\n",
        ),
    ),
    mutant(
        "a run that stops leaves its function waiting",
        EXACT + "test_a_stopped_run_ends_a_function_that_waits_for_a_worker",
        (
            "engine/execution/task_delivery.py",
            "            self._unwind()\n            return False\n",
            "            return False\n",
        ),
    ),
    mutant(
        "the engine's own timers go by the code's clock",
        DELIVERY + "test_a_sleep_after_a_replayed_timer_is_not_longer",
        (
            "engine/execution/watched_loop.py",
            "        return Context().run(self._call_later, delay, callback, *args, context=context)\n",
            "        return self._call_later(delay, callback, *args, context=context)\n",
        ),
    ),
    mutant(
        "recorded outcomes take no time",
        DELIVERY + "test_a_deadline_that_had_passed_has_passed_again",
        (
            "engine/execution/task_delivery.py",
            "            self.clock.reach(step.ended_at)\n",
            "            pass\n",
        ),
    ),
    mutant(
        "a loose outcome that is not read yet is forgotten",
        DELIVERY + "test_a_failed_run_is_resumed_while_a_large_value_is_read",
        (
            "engine/execution/delivery.py",
            "            turn = self._asked.get(self._loose_asked[0][1])\n",
            "            turn = self._asked.get(heapq.heappop(self._loose_asked)[1])\n",
        ),
    ),
    mutant(
        "a run that parks cancels the clean-up of its code",
        DELIVERY + "test_a_run_that_parks_lets_its_code_clean_up",
        (
            "engine/execution/task_delivery.py",
            'if ran == self._ran and (wait.kind != "unknown" or',
            "if ran == self._ran and (True or",
        ),
    ),
    mutant(
        "a replay runs what has no record",
        ENGINE + "test_replay.py::test_a_secret_step_does_not_run",
        (
            "engine/execution/thread_driver.py",
            "            run.reach(call.key)\n            return _perform_again(call, past)\n",
            "            return _perform_again(call, past)\n",
        ),
    ),
    # Tasks, memory, search, mirror, plans and tools
    mutant(
        "a claim is taken over that another one has taken over meanwhile",
        TRACKER + "test_a_claim_that_was_found_dead_is_taken_once",
        (
            "kernel/task_rules.py",
            "    if held is not None and held.number != free and not is_over(held, now):\n"
            "        raise held_by(task, held)\n    return TaskClaimed(",
            "    if held is not None and not free and not is_over(held, now):\n"
            "        raise held_by(task, held)\n    return TaskClaimed(",
        ),
    ),
    mutant(
        "a task is completed under an old claim number",
        TRACKER + "test_a_claim_is_fenced_by_its_number",
        (
            "kernel/task_rules.py",
            "        if held is None or held.number != number:\n",
            "        if held is None:\n",
        ),
    ),
    mutant(
        "the claim of a dead process holds until its lease ends",
        TRACKER + "test_a_claim_ends_with_its_process_and_not_before",
        (
            "tracker/claiming.py",
            "    return holder.boot == boot_id() and started_ticks(holder.pid) == holder.started\n",
            "    return True\n",
        ),
    ),
    mutant(
        "a link closes a cycle with one that came in between",
        TRACKER + "test_a_link_that_came_in_between_counts",
        ("tracker/linking.py", "        written = not recorded[0]\n", "        written = True\n"),
    ),
    mutant(
        "a task counts as done although its check failed",
        TRACKER + "test_checks_must_succeed_or_be_left_out_with_a_reason",
        (
            "tracker/checks.py",
            'else f"ended with exit code {code}" if code else ""',
            'else ""',
        ),
    ),
    mutant(
        "a step that was cut off is refused what it did to a task",
        IN_RUNS + "test_a_step_that_runs_again_is_not_refused_what_it_did",
        (
            "kernel/author.py",
            "        return bool(self.run and self.step) and self.place == other.place\n",
            "        return False\n",
        ),
    ),
    mutant(
        "the end of a run leaves its task as it is",
        CRASH + "test_tasks.py::test_power_cuts",
        (
            "tracker/run_end.py",
            "    return (Companion(Source(tasks.stream_of(task)), decide),)\n",
            "    return ()\n",
        ),
    ),
    mutant(
        "a link that is removed still holds up its task",
        "tests/contract/test_tracker_projection.py::test_both_stores_agree_and_a_rebuild_changes_nothing",
        (
            "store/sqlite/tracker.sql",
            "    UPDATE main.task_readiness SET open_blockers = open_blockers - 1\n",
            "    UPDATE main.task_readiness SET open_blockers = open_blockers\n",
        ),
    ),
    mutant(
        "a rewind overwrites what another one did to the task since",
        REVERSAL + "test_what_another_has_changed_since_is_kept_and_named",
        (
            "operations/task_reversal.py",
            "        elif standing[-1] not in counting:\n",
            "        elif True:\n",
        ),
    ),
    mutant(
        "a rewind leaves the memories of what it undid",
        CRASH + "test_tasks.py::test_power_cuts",
        ("operations/memory_reversal.py", "        if self._gone is not None:\n", "        if False:\n"),
    ),
    mutant(
        "a deletion does not record what it deleted",
        "tests/engine/test_delete.py::test_a_task_goes_with_its_links_and_comes_back_with_them",
        (
            "operations/deleting.py",
            "    stages = (begun, e.ItemsDeleted(plan.items, tuple(plan.heads)), e.OperationDone())\n",
            "    stages = (begun, e.OperationDone())\n",
        ),
    ),
    mutant(
        "a restored task has lost its links",
        "tests/contract/test_deleted_tasks.py",
        (
            "store/sqlite/tracker.sql",
            "WHEN NEW.type = 'StreamProjected' AND NEW.payload ->> '$.stream' GLOB '@task/*' BEGIN",
            "WHEN NEW.type = 'StreamProjected' AND NEW.payload ->> '$.stream' GLOB '@tusk/*' BEGIN",
        ),
    ),
    mutant(
        "the search index has what is redacted",
        "tests/search/test_search.py::test_other_patterns_make_it_anew",
        (
            "search/plain_text.py",
            "text_in(redactor.redact_value(msgspec.json.decode(data)))",
            "text_in(msgspec.json.decode(data))",
        ),
    ),
    mutant(
        "a file of the mirror is written in place",
        "tests/mirror/test_kills.py::test_killed_at_a_system_call",
        (
            "mirror/mirror_directory.py",
            "            replace_file(Path(name), data, dir_fd=self._fd)\n",
            "            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self._fd)\n"
            "            os.write(fd, data)\n"
            "            os.close(fd)\n",
        ),
    ),
    mutant(
        "the keys of plan steps depend on the order in which steps end",
        "tests/engine/test_plans.py::test_order_of_completion",
        (
            "plans/interpreter.py",
            "_named(self._once(step, one), step.id) for one in each",
            '_named(self._once(step, one), f"{step.id}-{len(self._results)}") for one in each',
        ),
    ),
    mutant(
        "a tool follows a symlink",
        "tests/agents/test_confinement.py::test_a_path_that_leads_out_is_refused",
        (
            "workspace/fs/beneath.py",
            "FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | ",
            "FILE_FLAGS = os.O_RDONLY | ",
        ),
    ),
    # Budgets
    mutant(
        "a budget is settled by a commit of its own",
        BUDGETS + "test_reserved_before_the_intent_and_settled_with_the_result",
        (
            "agents/governor/governor.py",
            "        return self._budgets.settlement(\n"
            "            held.budgets, held.id, held.epoch, amounts, unknown=unknown, cut_off=cut_off\n"
            "        )\n",
            '        self._budgets.end(held.id, held.epoch, held.id.partition(":")[0], (amounts, unknown))\n'
            "        return ()\n",
        ),
    ),
    mutant(
        "the parents of a budget are not asked",
        BUDGETS + "test_a_parent_refuses_and_nothing_is_reserved",
        (
            "agents/governor/budgets.py",
            "        made.append(b.reserve(state, name, asked))\n",
            "        made.append(b.reserve(state, name, asked) if name == paying.name else asked)\n",
        ),
    ),
    mutant(
        "a budget is raised by 0",
        BUDGETS + "test_wrong_limits_are_refused_with_a_sentence",
        (
            "kernel/budget.py",
            "    if not given or not all(added.of(unit) for unit in given):\n",
            "    if not given:\n",
        ),
    ),
    mutant(
        "a budget is raised by less than 0",
        BUDGETS + "test_wrong_limits_are_refused_with_a_sentence",
        (
            "kernel/amounts.py",
            "if not amount.is_finite() or not 0 <= amount <= _MOST:",
            "if not amount.is_finite() or not amount <= _MOST:",
        ),
    ),
    mutant(
        "the rows of an archived budget stay",
        SQLITE + "test_an_archived_budget_is_gone",
        (
            "store/sqlite/budgets.sql",
            "INSTEAD OF INSERT ON projected_budgets WHEN NEW.type = 'StreamArchived' BEGIN",
            "INSTEAD OF INSERT ON projected_budgets WHEN NEW.type = 'Never' BEGIN",
        ),
    ),
    mutant(
        "an attempt that was cut off is not charged",
        BUDGETS + "test_an_attempt_that_was_cut_off_is_charged_in_full_once",
        (
            "agents/governor/governor.py",
            "        if not of_it and gone(store, one.run) is None:\n",
            "        if True:\n",
        ),
    ),
    mutant(
        "a reservation that was never begun is charged",
        BUDGETS + "test_a_reservation_whose_attempt_never_began_is_released",
        (
            "agents/governor/governor.py",
            "        if not of_it and gone(store, one.run) is None:\n",
            "        if False:\n",
        ),
    ),
    mutant(
        "what was in flight when the time of an attempt was over is not charged",
        BUDGETS + "test_an_attempt_that_took_too_long_is_charged_at_least_as_reserved",
        ("engine/execution/perform.py", "begun=ran, cut_off=late)", "begun=ran)"),
    ),
    mutant(
        "what a live process has reserved is taken from it",
        BUDGETS + "test_what_a_live_process_holds_is_left_alone",
        (
            "agents/governor/governor.py",
            "        return (row.owner, row.epoch) != (one.owner, one.epoch)\n",
            "        return True\n",
        ),
    ),
    mutant(
        "a reservation is settled twice",
        KERNEL + "test_budget.py::test_a_reservation_ends_once",
        (
            "kernel/budget.py",
            "    if before is None:\n        return state\n    left",
            "    before = before or Reservation('', '', 1, NOTHING)\n    left",
        ),
    ),
    mutant(
        "an attempt reserves under the name of the first",
        BUDGETS + "test_a_failed_attempt_settles_what_it_measured_or_all",
        (
            "agents/governor/governor.py",
            "        attempt = 1 if past is None else past.attempt + 1\n",
            "        attempt = 1\n",
        ),
    ),
    mutant(
        "a resumed run ends the reservations of others",
        BUDGETS + "test_a_resumed_run_ends_what_it_left_and_nothing_else",
        (
            "agents/governor/governor.py",
            "one.run == run.id and one.epoch < run.epoch",
            "one.epoch < run.epoch",
        ),
    ),
    mutant(
        "what was reserved before a rewind is charged for what ran after it",
        BUDGETS + "test_what_was_reserved_for_another_attempt_is_not_charged",
        (
            "agents/governor/governor.py",
            "(event.key, event.attempt, event.generation) == (one.step, one.attempt, one.generation)",
            "(event.key, event.attempt) == (one.step, one.attempt)",
        ),
    ),
    mutant(
        "a budget pays to the parent that it had",
        BUDGETS + "test_a_parent_that_another_process_has_changed_is_the_one_that_pays",
        (
            "agents/governor/budgets.py",
            "        if state.parent != parent:\n            raise _Moved\n        made.append",
            "        made.append",
        ),
    ),
    mutant(
        "two processes make a cycle of budgets",
        BUDGETS + "test_a_cycle_that_two_processes_make_at_once",
        (
            "agents/governor/budgets.py",
            "self._write([(name, change), *checks])",
            "self._write([(name, change)])",
        ),
    ),
    mutant(
        "a settlement is a commit of its own",
        CRASH + "test_points.py::test_kills_around_budgets",
        (
            "engine/execution/reserving.py",
            "    append.also = (*append.also, *more)\n",
            "    store = call.execution.engine.store\n"
            "    for one in more:\n"
            "        store.command_all([one.source], lambda read, one=one: [one.decide(read[0])])\n",
        ),
    ),
    # Evidence
    mutant(
        "the evidence of a milestone is behind its checkpoint, so a rewind to it loses it",
        EVIDENCE + "test_evidence_of_a_generation_that_was_left_does_not_count",
        (
            "engine/files/checkpoint_append.py",
            "[c.Record(written), c.Record(taken)]",
            "[c.Record(taken), c.Record(written)]",
        ),
        ("kernel/decide.py", '    e.EvidenceWritten: "milestone {} is recorded already",\n', ""),
    ),
    mutant(
        "the words of a program that is an agent are evidence",
        EVIDENCE + "test_the_words_of_an_agent_program_are_no_evidence",
        (
            "agents/evidence/observed.py",
            "return not self.settled and not self.agent",
            "return not self.settled",
        ),
    ),
    mutant(
        "a command prints its way out of its block",
        EVIDENCE + "test_output_cannot_leave_its_block",
        ("agents/evidence/document.py", '    fence = "`" * max(3, longest + 1)\n', '    fence = "```"\n'),
    ),
    mutant(
        "a verification repeats a command that has the effect once",
        EVIDENCE + "test_what_cannot_be_repeated_is_named_and_not_run",
        (
            "agents/evidence/reproducing.py",
            '    if one.effect == "once":\n',
            '    if one.effect == "twice":\n',
        ),
    ),
    mutant(
        "a verification runs what the log does not have in full",
        EVIDENCE + "test_what_cannot_be_repeated_is_named_and_not_run",
        ("agents/evidence/reproducing.py", "one.digest != identity(", "not identity("),
    ),
    mutant(
        "a verification works in the workspace itself",
        EVIDENCE + "test_paths_of_the_workspace_lead_into_the_copy",
        (
            "agents/evidence/rerunning.py",
            "argv = [moved(word) for word in command.argv]",
            "argv = [*command.argv]",
        ),
    ),
    mutant(
        "evidence is verified however its commands end",
        EVIDENCE + "test_verify_names_the_command_that_differs",
        ("agents/evidence/reproducing.py", 'outcome="different" if whys else "equal"', 'outcome="equal"'),
    ),
    mutant(
        "evidence of a generation that was left counts",
        EVIDENCE + "test_evidence_of_a_generation_that_was_left_does_not_count",
        (
            "views/evidence.py",
            "if event.generation != 0 if alive is None else version not in alive:",
            "if False:",
        ),
    ),
    mutant(
        "the first milestone of a fork misses the commands after the copied evidence",
        EVIDENCE + "test_the_next_milestone_of_a_fork_has_all_commands_since",
        ("operations/forking.py", "until=1 + bisect_right(copied, copy.until)", "until=copy.until"),
    ),
    mutant(
        "a secret of a statement is in the document",
        EVIDENCE + "test_a_secret_is_not_in_a_document",
        (
            "engine/primitives/milestone.py",
            "_bounded(engine.redactor.redact(written.text))",
            "_bounded(written.text)",
        ),
        (
            "engine/primitives/milestone.py",
            "statement=engine.redactor.redact(statement)",
            "statement=statement",
        ),
    ),
    mutant(
        "code continues past a milestone whose evidence was not written",
        EVIDENCE + "test_a_writer_that_fails_stops_the_run",
        (
            "engine/primitives/milestone.py",
            "raise run.stop(Control(NeedsAttention(run.id, reason), [c.AttendRun(_CAUSE, reason)])) ",
            "raise error ",
        ),
    ),
    mutant(
        "evidence names commands of the part that was rewound",
        EVIDENCE + "test_milestones_of_a_rewound_run_have_the_commands_of_the_live_history",
        (
            "agents/evidence/observed.py",
            "    return live(recorded, generation) if recorded else ()\n",
            "    return recorded\n",
        ),
    ),
    mutant(
        "verification does not look at the error output",
        EVIDENCE + "test_verify_compares_the_error_output",
        ("agents/evidence/reproducing.py", 'for name in ("stdout", "stderr"):', 'for name in ("stdout",):'),
    ),
    mutant(
        "a document is shown as it was redacted when it was written",
        EVIDENCE + "test_a_pattern_that_is_newer_hides_what_a_document_has",
        ("views/evidence.py", "document=redactor.redact(document)", "document=document"),
    ),
    mutant(
        "what a writer of one's own makes is kept as it is",
        EVIDENCE + "test_a_writer_of_ones_own",
        (
            "engine/primitives/milestone.py",
            "_bounded(engine.redactor.redact(written.text))",
            "_bounded(written.text)",
        ),
    ),
    mutant(
        "why a command did not start is recorded with its secrets",
        EVIDENCE + "test_a_secret_in_why_a_command_did_not_start_is_hidden",
        ("agents/evidence/reproducing.py", "why=self._engine.redactor.redact(work.why)", "why=work.why"),
    ),
    mutant(
        "a statement is redacted only with its document",
        EVIDENCE + "test_a_key_without_its_end_hides_nothing_after_a_statement",
        (
            "engine/primitives/milestone.py",
            "statement=engine.redactor.redact(statement)",
            "statement=statement",
        ),
    ),
    mutant(
        "a diff is redacted only with its document",
        EVIDENCE + "test_a_line_from_the_middle_of_a_key_is_in_no_diff",
        (
            "agents/evidence/writer.py",
            "workspace.text_diff(change, self.engine.redactor.redact)",
            "workspace.text_diff(change, str)",
        ),
    ),
    # Agents
    mutant(
        "the error output of an agent is read for its answer",
        AGENT + "test_the_log_is_read_for_the_last_attempt_and_its_standard_output",
        (
            "engine/execution/command_output.py",
            'seen = line if self._is_read and source != "stdout" else on_line(line)',
            "seen = on_line(line)",
        ),
    ),
    mutant(
        "an agent's program is evidence",
        AGENT + "test_what_it_prints_is_no_evidence",
        ("agents/backends/command_agent.py", "            evidence=False,\n", ""),
    ),
    mutant(
        "what a job may write is not what its step writes",
        AGENT + "test_only_what_a_job_may_write_is_rolled_back",
        ("agents/backends/command_agent.py", "            writes=job.writes,\n", ""),
    ),
    mutant(
        "the next attempt of a command begins before the tree of the last is dead",
        AGENT + "test_what_a_child_prints_after_the_timeout_is_not_of_the_next_attempt",
        (
            "engine/primitives/command_process.py",
            "    process.terminate()\n    try:\n        process.join()\n",
            "    process.terminate()\n    try:\n        pass\n",
        ),
    ),
    mutant(
        "a job has the usage of the job beside it",
        AGENT + "test_jobs_side_by_side_have_their_own_usage",
        (
            "agents/backends/command_agent.py",
            ' and key.rpartition("/")[0] == path.rstrip("/")',
            "",
        ),
    ),
    mutant(
        "a rejection is asked for again because a file changed",
        DELIVER + "test_a_rejection_counts_whatever_the_files_are",
        (
            "agents/deliver/bound_approval.py",
            '        if decision.outcome != "approved":\n'
            "            return Answer(decision, question.snapshot)\n",
            "",
        ),
    ),
    mutant(
        "an approval that was given while files changed counts",
        DELIVER + "test_files_that_change_while_a_plan_waits",
        (
            "agents/deliver/bound_approval.py",
            "        if after == question.snapshot:\n",
            "        if True:\n",
        ),
    ),
    mutant(
        "what is rejected after the checks is delivered",
        DELIVER + "test_what_a_check_changed_can_be_rejected",
        (
            "agents/deliver/delivery.py",
            "            if answer.approved:\n                return [one.path for one in found], verified\n",
            "            return [one.path for one in found], verified\n",
        ),
    ),
    mutant(
        "a planner's changes are rolled back in the order in which they were made",
        DELIVER + "test_a_planner_that_changes_a_file_again_and_again",
        ("agents/deliver/read_only.py", "in reversed(windows)", "in windows"),
    ),
    mutant(
        "the error of the store behind a pause stays with the worker",
        ENGINE + "test_serving.py::test_an_error_comes_from_a_worker_with_the_error_of_the_store_behind_it",
        ("serving/protocol.py", '    error.__cause__ = error_of(fields.get("cause"))\n', ""),
    ),
    # Learning
    mutant(
        "a replayed choice is drawn again",
        ROUTER + "test_a_replay_repeats_the_choices",
        (
            "agents/router.py",
            '    order = recorded("route", make)\n',
            '    order = make()\n    recorded("route", lambda: order)\n',
        ),
    ),
    mutant(
        "that all candidates failed is not recorded",
        ROUTER + "test_all_failed_pauses_and_resume_tries_again",
        ("agents/router.py", '    recorded("all_failed", mark)\n', "    mark()\n"),
    ),
    mutant(
        "an outcome is recorded as it was reported, with its secrets",
        ROUTER + "test_a_secret_in_an_error_is_hidden",
        ("engine/primitives/outcome.py", "redact = run.engine.redactor.redact\n", "redact = str\n"),
    ),
    mutant(
        "the reason why all candidates failed has their secrets",
        ROUTER + "test_a_secret_in_an_error_is_hidden",
        ("agents/router.py", 'run.engine.redactor.redact(f"all', 'str(f"all'),
    ),
    mutant(
        "the name of a measured model is recorded with its secrets",
        ENGINE + "test_measure.py::test_a_secret_in_the_name_of_a_model_is_not_recorded",
        (
            "engine/primitives/measure.py",
            'run.engine.redactor.redact(check_text(model, "measure(model=...)"))',
            'check_text(model, "measure(model=...)")',
        ),
    ),
    mutant(
        "the error of a step reaches the code with its secrets",
        "tests/agents/llm/test_llm.py::test_a_secret_in_why_no_model_answers_is_hidden",
        ("kernel/failure.py", "    if round_trips(error, failure):\n", "    if True:\n"),
    ),
    mutant(
        "a wrong call is a failure of the candidate",
        ROUTER + "test_mistakes_of_the_caller_are_no_outcome",
        ("agents/router.py", "_MISUSE: Final = (BadInput, WrongColour)", "_MISUSE: Final = ()"),
    ),
    mutant(
        "what the steps of a choice measured is not its cost",
        ROUTER + "test_the_end_of_the_block_is_the_outcome",
        ("agents/router.py", "        if usd is None and self._path:\n", "        if False:\n"),
    ),
    mutant(
        "a failing candidate does not rest",
        ROUTER + "test_a_rest_ends",
        ("agents/learning/learner.py", "        if beyond < 0:\n", "        if True:\n"),
    ),
    mutant(
        "the router does not look at costs",
        "tests/agents/test_learner.py::test_at_least_nine_of_ten_late_choices_are_the_best_by_value",
        (
            "agents/learning/learner.py",
            "    cost = (record.usd + typical_usd) / known * ",
            "    cost = typical_usd * ",
        ),
    ),
    mutant(
        "old outcomes count for ever",
        "tests/agents/test_learner.py::test_a_candidate_that_became_bad_is_left",
        ("agents/learning/learner.py", "WINDOW: Final = 400", "WINDOW: Final = 400_000"),
    ),
    mutant(
        "the copies of outcomes in a fork count",
        ROUTER + "test_a_rewind_keeps_outcomes_and_a_fork_does_not_repeat_them",
        (
            "store/sqlite/learning.sql",
            "    DELETE FROM main.outcomes WHERE stream = NEW.stream;\n",
            "    SELECT 1;\n",
        ),
    ),
    mutant(
        "outcomes of an archived run stay",
        ROUTER + "test_a_rewind_keeps_outcomes_and_a_fork_does_not_repeat_them",
        (
            "store/sqlite/learning.sql",
            "    DELETE FROM main.outcomes\n    WHERE stream = (SELECT id",
            "    DELETE FROM main.outcomes\n    WHERE 0 = (SELECT id",
        ),
    ),
    mutant(
        "a skill that fails is chosen all the same",
        "tests/engine/test_skills.py::test_a_skill_that_fails_is_hardly_chosen",
        ("agents/skills.py", "            if rate >= _LEAST:\n", "            if fit:\n"),
    ),
    mutant(
        "a replayed choice of skills reads the files again",
        "tests/engine/test_skills.py::test_a_replay_has_the_texts_of_then",
        (
            "agents/skills.py",
            'for one in recorded("skills", make)]',
            'for one in (recorded("skills", make), make())[1]]',
        ),
    ),
    mutant(
        "handlers that a file of the project names need no trust",
        "tests/engine/test_handlers.py::test_a_setting_names_one_once_it_is_trusted",
        ("settings/resolving.py", ' or meta_of(field, "code")]', "]"),
    ),
    mutant(
        "repair believes an event whose hash does not follow",
        REPAIR + "test_an_event_comes_back_from_a_backup",
        (
            "operations/repairing/chains.py",
            "        if one.chained(before, name) == one.hash:\n",
            "        if one.hash:\n",
        ),
    ),
    mutant(
        "a run whose history is cut off stays as it was",
        REPAIR + "test_a_run_that_lost_its_tail_waits_for_a_person",
        ("operations/repairing/salvage.py", "    _mark_cut_runs(made, at)\n", ""),
    ),
    mutant(
        "repair finds no rows of streams",
        REPAIR + "test_a_renamed_record_behind_a_lost_one",
        ("store/sqlite/salvage/records.py", '_INTEGER * 2 + _INTEGER + rb"?))"', '_INTEGER * 2 + rb"))"'),
    ),
    mutant(
        "repair takes the names of streams from any index",
        REPAIR + "test_hashes_of_large_values_are_no_names_of_streams",
        ("store/sqlite/queries.sql", " AND sum(agrees) > 0 AND", " AND"),
    ),
    mutant(
        "repair gives a stream the events of another one whose number a damaged row has",
        DAMAGED_ROWS + "test_the_row_of_a_stream_has_the_number_of_another",
        ("store/sqlite/salvage/candidates.py", "        self._drop_disproven_names()\n", ""),
    ),
    mutant(
        "repair believes the head in a row that has the name of another stream",
        DAMAGED_ROWS + "test_the_row_of_a_stream_has_the_name_of_another",
        (
            "store/sqlite/salvage/candidates.py",
            '        self._db.execute(sql.query("salvage_no_disproven_head"))\n',
            "",
        ),
    ),
    mutant(
        "repair makes up streams until it has the number in a damaged row",
        DAMAGED_ROWS + "test_a_number_that_no_store_has",
        (
            "operations/repairing/store_records.py",
            "    return candidates.number_of(one.ids[0]) or candidates.number(one.name)\n",
            "    return candidates.number(one.name)\n",
        ),
        (
            "operations/repairing/store_records.py",
            " for name, number in numbers.items() if name not in recorded and number <= most)",
            " for number in numbers.values())",
        ),
    ),
    mutant(
        "repair drops records of a store that has many for each stream",
        DAMAGED_ROWS + "test_many_records_of_few_streams",
        (
            "operations/repairing/store_records.py",
            " + len(shown), candidates.last_position())\n",
            ", 0)\n",
        ),
    ),
    mutant(
        "repair believes a damaged position",
        REPAIR + "test_the_index_has_a_damaged_position",
        ("store/sqlite/salvage/candidates.py", "        self._correct_positions()\n", ""),
    ),
    mutant(
        "repair believes a position that is not in the order of the stream",
        DAMAGED_ROWS + "test_a_position_that_no_copy_has",
        (
            "operations/repairing/salvaged_log.py",
            "        found.misplaced.update((number, version) for version in _misplaced(made, name))\n",
            "",
        ),
    ),
    mutant(
        "repair believes a position behind younger events",
        DAMAGED_ROWS + "test_a_position_that_no_event_has",
        (
            "store/sqlite/salvage/candidates.py",
            "(self._disorder(id, one) + (one > ends[copy]), n, one)",
            "(one > ends[copy], n, one)",
        ),
    ),
    mutant(
        "repair names a lost run after one that a restore took away",
        REPAIR + "test_what_a_restore_took_away_stays_away",
        (
            "operations/repairing/store_records.py",
            "        here = [_as_proven(candidates, one, before) for one in group if one.trust < EARLIER]\n",
            "        here = [*group]\n",
        ),
    ),
    mutant(
        "repair believes a record that the first event of its stream disproves",
        REPAIR + "test_a_renamed_record_behind_a_lost_one",
        (
            "operations/repairing/store_records.py",
            "    return _MADE if one.copy == made_again else _UNPROVEN\n",
            "    return _MADE\n",
        ),
    ),
    mutant(
        "repair archives the run whose name a damaged record has",
        DAMAGED_ROWS + "test_the_record_of_an_archived_run_has_another_name",
        ("operations/repairing/store_records.py", "        return _with_known_head(made, event)\n", ""),
    ),
    mutant(
        "repair gives a number to a damaged record before the one that its stream proves",
        DAMAGED_ROWS + "test_a_damaged_record_does_not_take_the_name_of_a_later_one",
        (
            "operations/repairing/store_records.py",
            "            if likelihood == _UNPROVEN:\n",
            "            if False:\n",
        ),
    ),
    mutant(
        "repair brings a deleted run back if the record of its deletion is lost",
        DAMAGED_ROWS + "test_the_record_of_a_deletion_is_lost",
        ("operations/repairing/salvage.py", "        _restore_deletions(made, at)\n", "        pass\n"),
    ),
    mutant(
        "repair takes rows that a split page left for rows that SQLite reads",
        DELETIONS + "test_a_split_page_left_the_row_of_a_run_that_is_deleted",
        (
            "store/sqlite/salvage/rows.py",
            "            if image.is_last and start in reached.starts:",
            "            if True:",
        ),
    ),
    mutant(
        "repair takes rows of a replaced page for the newest ones",
        DELETIONS + "test_the_record_is_in_a_damaged_frame",
        ("store/sqlite/salvage/rows.py", "            if image.is_last and start", "            if start"),
    ),
    mutant(
        "repair deletes a restored run by the row of its deletion",
        DELETIONS + "test_a_row_of_an_earlier_deletion",
        ("operations/repairing/salvage.py", " and (fate.is_last or row.reach == LEFT_OVER):", " and False:"),
    ),
    mutant(
        "repair restores a deleted run by a row from before",
        DELETIONS + "test_a_row_from_before_a_deletion",
        (
            "operations/repairing/salvage.py",
            "        if is_continued or rows[0].reach == POINTED:",
            "        if True:",
        ),
    ),
    mutant(
        "repair drops the record of a run that was deleted twice",
        DELETIONS + "test_a_run_that_was_deleted_twice",
        (
            "operations/repairing/store_records.py",
            "        if fit:\n            return fit\n",
            "        pass\n",
        ),
    ),
    mutant(
        "repair believes any name in a damaged record",
        NAMES + "test_a_name_that_holdfast_does_not_write",
        (
            "operations/repairing/store_records.py",
            "    if not kind or event.stream == STORE_STREAM:\n        return None\n",
            "    if not kind:\n        return event\n",
        ),
    ),
    mutant(
        "repair does not report a lost record of the store",
        REPAIR + "test_hashes_of_large_values_are_no_names_of_streams",
        ("operations/repairing/store_records.py", "            _cut(made, version)\n", ""),
    ),
)
