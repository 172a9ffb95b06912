"""Copies of the source, each without one guard of the write protocol -> the test that detects each.

`python scripts/mutate_protocol.py [name ...]` prints a table. It exits with 1 if a mutant survives or a test fails without a mutant.
Run it by hand: it takes some minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "docs", "scripts", "pyproject.toml")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Mutant(NamedTuple):
    """A guard, its source text, the text without the guard, and the tests that should fail."""

    guard: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "the fence",
        "store/stage.py",
        "    operation, fragments = transaction.operation, table.dataset.get_fragments()\n",
        "    return transaction\n    operation, fragments = transaction.operation, table.dataset.get_fragments()\n",
        ("tests/contract/test_stage_race.py",),
    ),
    Mutant(
        "the recheck of authority under the lock",
        "exec/write/protocol.py",
        "still = early is not None and _same_authority(manifest, early.snapshot)",
        "still = early is not None",
        ("tests/unit/exec/test_write.py",),
    ),
    Mutant(
        "the second look for intents, under the lock",
        "exec/write/protocol.py",
        "        heal_held(manifest, tables, branch, grant=grant)  # 5\n",
        "",
        ("tests/crash/test_sleepers.py",),
    ),
    Mutant(
        "the intent",
        "exec/write/protocol.py",
        "    _arm(manifest, intent, first=partial(_settle, manifest.root, ready, grant))  # 6\n",
        "",
        ("tests/crash/test_matrix.py::test_a_death_in_the_process[two tables, main-write.between_tables:1]",),
    ),
    Mutant(
        "the refusal of drift",
        "exec/write/protocol.py",
        "        _refuse_drift(tables, ready)\n",
        "",
        ("tests/unit/exec/test_write.py",),
    ),
    Mutant(
        "the uuid that proves whose commit it is",
        "manifest/recover.py",
        "case [ours] if ours == intent.uuid:",
        "case [ours] if ours != intent.restore_uuid:",
        ("tests/unit/exec/test_recover.py",),
    ),
    Mutant(
        "the uuid that proves whose restore it is",
        "manifest/recover.py",
        "if last == intent.restore_uuid and tuple(earlier) == intent.uuids[: len(earlier)]:",
        "if not last:",
        ("tests/unit/exec/test_recover.py",),
    ),
    Mutant(
        "the publish of restored versions",
        "manifest/recover.py",
        "        tables=tuple(rows),\n        commit=intent.rollback,",
        "        commit=intent.rollback,",
        ("tests/unit/exec/test_recover.py",),
    ),
    Mutant(
        "the restore of tables that have not moved",
        "manifest/recover.py",
        "    if effect.status is EffectStatus.OVERTAKEN:\n",
        "    if effect.status in (EffectStatus.OVERTAKEN, EffectStatus.UNTOUCHED):\n",
        ("tests/contract/test_write_s3.py::test_a_writer_overtaken_in_its_sleep_damages_nothing",),
    ),
    Mutant(
        "forward only from the parent it was planned on",
        "manifest/recover.py",
        " and (state.head.commit, state.head.schema) == (intent.parent, intent.schema)\n",
        "\n",
        ("tests/unit/exec/test_recover.py",),
    ),
    Mutant(
        "what the graph shows is not ours to undo",
        "manifest/recover.py",
        "case [first, *_] if first != intent.uuid and _shown_past(intent, state):",
        "case [first, *_] if not first:",
        ("tests/crash/test_sleepers.py",),
    ),
    Mutant(
        "another try for intents that wait for others",
        "manifest/recover.py",
        "        if reason is not None and blocked == waiting:\n",
        "        if reason is not None:\n",
        ("tests/crash/test_sleepers.py",),
    ),
    Mutant(
        "a look at the chain by a writer that lost its lease",
        "exec/write/protocol.py",
        "        if not ended:\n            grant.check()\n",
        "        grant.check()\n",
        ("tests/contract/test_write_s3.py::test_a_writer_overtaken_in_its_sleep_damages_nothing",),
    ),
    Mutant(
        "the epoch check",
        "manifest/publish.py",
        "if expect.epoch is not None and expect.epoch < head.epoch:",
        "if False:",
        ("tests/unit/manifest/test_publish.py", "tests/contract/test_fencing.py"),
    ),
    Mutant(
        "the branch-incarnation check",
        "manifest/publish.py",
        "if expect.branch is not None and expect.branch != branch:",
        "if False:",
        ("tests/unit/manifest/test_publish.py", "tests/unit/manifest/test_branches.py"),
    ),
    Mutant(
        "the exact-head expectation",
        "manifest/publish.py",
        "if expect.head is not None and expect.head != head.commit:",
        "if False:",
        ("tests/unit/manifest/test_publish.py", "tests/crash/test_sleepers.py"),
    ),
    Mutant(
        "the expected table versions",
        "manifest/publish.py",
        "    for table, expected in expect.tables.items():\n",
        "    for table, expected in ():\n",
        ("tests/unit/manifest/test_publish.py",),
    ),
    Mutant(
        "the look at a file before a commit names it",
        "store/durable.py",
        "        if (file.size is not None and size != file.size) or not is_whole(descriptor, file.path, size):\n",
        "        if False:\n",
        ("tests/crash/test_full_disk.py", "tests/unit/store/test_endings.py"),
    ),
    Mutant(
        "no receipt after a failed flush",
        "exec/write/protocol.py",
        "        if isinstance(error, FlushFailed):\n",
        "        if False:\n",
        ("tests/crash/test_syscalls.py::test_a_system_call_fails[upsert of one row-EIO on fsync]",),
    ),
    Mutant(
        "a torn version that was acknowledged is damage",
        "manifest/read.py",
        "        return intent.parent == head\n",
        "        return True\n",
        ("tests/unit/exec/test_torn.py",),
    ),
    Mutant(
        "recovery looks at what a dead writer left",
        "manifest/recover.py",
        "            stage.settle_version(tables.open(ref), before=tables.open(table.before.ref))\n",
        "            pass\n",
        ("tests/unit/exec/test_torn.py",),
    ),
    Mutant(
        "the epoch above the one in head",
        "manifest/publish.py",
        "    if grant.epoch <= published:\n        grant.raise_epoch(published + 1)\n",
        "",
        ("tests/contract/test_epoch.py",),
    ),
    Mutant(
        "the epoch that a lease which was not there owes",
        "manifest/claims.py",
        "return self._put(self._mine(epoch=FIRST_EPOCH, owed=True), None)",
        "return self._put(self._mine(epoch=FIRST_EPOCH), None)",
        ("tests/contract/test_epoch.py",),
    ),
    Mutant(
        "forgetting only a lease that nobody holds",
        "manifest/leases.py",
        "        if seen is not None and seen.lease.released:\n            self._objects.put_if_match(path, retired",
        "        if seen is not None:\n            self._objects.put_if_match(path, retired",
        ("tests/contract/test_epoch.py",),
    ),
    Mutant(
        "the reservations that a remover takes away",
        "manifest/branches.py",
        "        withdraw_all(objects)\n",
        "",
        ("tests/contract/test_pauses_s3.py",),
    ),
    Mutant(
        "the mark on a parent that a child is made from",
        "manifest/registry.py",
        "    return objects.put_if_match(object_of(branch.name), body, seen.token, sync=True) is not None\n",
        "    return True\n",
        ("tests/contract/test_pauses_s3.py",),
    ),
    Mutant(
        "the mark on a branch whose commit is tagged",
        "manifest/tagging.py",
        "            if not touch(objects, found) or not settle_tag(objects, tag, reservation):\n",
        "            if not settle_tag(objects, tag, reservation):\n",
        ("tests/contract/test_pauses_s3.py",),
    ),
    Mutant(
        "the paths of the place where a graph is",
        "store/tables.py",
        "    return at_home(root, path, dataset)\n",
        "    return dataset\n",
        ("tests/unit/exec/test_moved.py",),
    ),
    Mutant(
        "the check of the lease before a branch is removed",
        "manifest/branches.py",
        "    reach(Fault.BRANCH_BEFORE_DELETE)\n    grant.check()\n",
        "    reach(Fault.BRANCH_BEFORE_DELETE)\n",
        ("tests/contract/test_pauses_s3.py",),
    ),
    Mutant(
        "the check of the lease before each removal",
        "manifest/branches.py",
        "            reach(Fault.BRANCH_BEFORE_DROP)\n            grant.check()\n",
        "            reach(Fault.BRANCH_BEFORE_DROP)\n",
        ("tests/contract/test_pauses_s3.py",),
    ),
    Mutant(
        "the way that a recovery records",
        "manifest/recover.py",
        "match intents.decide(manifest.root.objects, intent, way, check=grant.check):",
        "match way:",
        ("tests/contract/test_pauses_s3.py",),
    ),
    Mutant(
        "the look for an id that was minted beforehand",
        "manifest/publish.py",
        "if publication.commit is None or publication.expect.head == state.head.commit:",
        "if True:",
        ("tests/crash/test_no_locks.py",),
    ),
    Mutant(
        "the proof that locks exclude",
        "store/local.py",
        "        prove_locks(directory, graph=root)\n",
        "",
        ("tests/crash/test_no_locks.py",),
    ),
    Mutant(
        "opening without waiting",
        "manifest/recover.py",
        "with hold(manifest, on, timeout_seconds=0) as grant:",
        "with hold(manifest, on) as grant:",
        ("tests/crash/test_open.py::test_a_slow_writer_of_another_branch_holds_up_no_open",),
    ),
)


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.guard for name in names)]
    every = sorted({test for mutant in chosen for test in mutant.tests})
    if (red := first_failure(None, tuple(every))) is not None:
        print(f"failure without a mutant: {red}")
        return 1
    print("| removed guard | detected by |\n|---|---|", flush=True)
    survivors = 0
    for mutant in chosen:
        caught = first_failure(mutant, mutant.tests)
        survivors += caught is None
        print(f"| {mutant.guard} | {f'`{caught}`' if caught else '**survives**'} |", flush=True)
    return 1 if survivors else 0


def first_failure(mutant: Mutant | None, tests: tuple[str, ...]) -> str | None:
    """Run tests on a copy of the source with the mutant. Returns the first failing test, or None."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-mutant-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            shutil.copytree(source, copy / name) if source.is_dir() else shutil.copy(source, copy / name)
        if mutant is not None:
            apply(mutant, copy / "src" / "omnigraph" / mutant.file)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        found = FAILED.search(done.stdout)
        if found is None:
            raise SystemExit(f"pytest exited with {done.returncode} and named no test:\n{done.stdout}{done.stderr}")
        return found.group(1)


def apply(mutant: Mutant, file: Path) -> None:
    text = file.read_text()
    if text.count(mutant.text) != 1:
        raise SystemExit(
            f"{mutant.file} has the text of {mutant.guard!r} {text.count(mutant.text)} times instead of once; update this script"
        )
    file.write_text(text.replace(mutant.text, mutant.instead))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
